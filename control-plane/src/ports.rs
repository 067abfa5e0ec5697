//! Loopback ports that stay free until their server starts.
//!
//! Knows: how the kernel gives out ports. Must not know: which server wants one.

use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddrV4},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Context as _, bail};
use socket2::{Domain, Socket, Type};

/// Below the range from which most kernels take the ports of outgoing connections: one of those would otherwise hold a port
/// while its server is restarted.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Each process begins its search this far from the next, so that test processes started together do not all look at the
/// same ports.
const STRIDE: u32 = 128;

static TAKEN: AtomicU16 = AtomicU16::new(0);

/// The sockets that keep the ports of this process from others, the oldest first.
static RESERVED: Mutex<VecDeque<Socket>> = Mutex::new(VecDeque::new());

/// The most sockets that are kept. A control plane takes 7 ports, and the servers beside it some dozens at most; with 256, a process
/// that starts servers for hours stays below the 1,024 open files that many systems allow. The oldest is closed for a newer one: its
/// server listens by then, or has ended.
const MOST_RESERVED: usize = 256;

/// A port of 127.0.0.1 on which no server listens and which this process has not been given before. On Linux no other process is given
/// it either, until this one ends or has been given 256 more.
///
/// The server that listens there must set `SO_REUSEADDR`, as those of Go and of the standard library do.
///
/// # Errors
/// Where every port is taken, or no socket can be had.
pub fn free_port() -> anyhow::Result<u16> {
    let start = process::id().wrapping_mul(STRIDE) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
        let offset = (start + step) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("the remainder by a u16 fits one");
        match reserve(port) {
            Ok(socket) => {
                // Elsewhere no server could listen beside it.
                if cfg!(target_os = "linux") {
                    keep(&mut RESERVED.lock().unwrap_or_else(PoisonError::into_inner), socket);
                }
                return Ok(port);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| format!("cannot reserve 127.0.0.1:{port}")),
        }
    }
    bail!("no free port on 127.0.0.1 from {FIRST} on; end some of the servers that run there")
}

/// A socket that is bound to a port and never listens.
///
/// Without `SO_REUSEADDR`, bind fails where any other socket is bound. The option is set afterwards: Linux then lets a server listen on
/// the port that has set it too.
fn reserve(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into())?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn keep(reserved: &mut VecDeque<Socket>, socket: Socket) {
    reserved.push_back(socket);
    if reserved.len() > MOST_RESERVED {
        reserved.pop_front();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_port_is_given_to_one_process_alone_and_its_server_can_listen_again_and_again() {
        let port = free_port().unwrap();
        for _ in 0..2 {
            // As another process would look.
            assert_eq!(reserve(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            assert_eq!(reserve(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (accepted, _) = server.accept().unwrap();
            // The server's side ends first, and its connection stays in TIME_WAIT.
            drop((accepted, server, client));
        }
    }

    #[test]
    fn no_more_ports_are_reserved_than_the_bound_and_the_oldest_go_first() {
        let port = |socket: &Socket| socket.local_addr().unwrap().as_socket().unwrap().port();
        let mut reserved = VecDeque::new();
        let ports: Vec<u16> = (0..=MOST_RESERVED)
            .map(|_| {
                // One that the kernel chooses, so that other tests lose none.
                let socket = reserve(0).unwrap();
                let port = port(&socket);
                keep(&mut reserved, socket);
                port
            })
            .collect();
        assert_eq!(reserved.iter().map(port).collect::<Vec<_>>(), ports[1..]);
    }

    #[test]
    fn a_port_where_a_server_listens_is_not_given() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(reserve(server.local_addr().unwrap().port()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
