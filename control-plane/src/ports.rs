//! Loopback ports that stay free until their server starts.

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

/// Below the ephemeral port range of most kernels: an outgoing connection could take the port while its server restarts.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Distance between the first ports of processes, so that concurrent test processes try different ports.
const STRIDE: u32 = 128;

static TAKEN: AtomicU16 = AtomicU16::new(0);

/// Sockets that reserve this process's ports, oldest first.
static RESERVED: Mutex<VecDeque<Socket>> = Mutex::new(VecDeque::new());

/// A control plane takes 7 ports, and other servers some dozens at most. With 256, a process that starts servers for hours stays below the
/// common limit of 1,024 open files. The oldest socket is closed first: its server listens by then, or has ended.
const MOST_RESERVED: usize = 256;

/// A free port of 127.0.0.1, new to this process. On Linux no other process gets it until this one ends or has taken 256 more. The server
/// must set `SO_REUSEADDR`, as those of Go and of the standard library do.
///
/// # Errors
/// Every port is taken, or no socket can be created.
pub fn free_port() -> anyhow::Result<u16> {
    let start = process::id().wrapping_mul(STRIDE) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
        let offset = (start + step) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("the remainder by a u16 fits one");
        match reserve(port) {
            Ok(socket) => {
                // Other systems do not let a server listen on a reserved port.
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

/// Binds a socket that never listens. Without `SO_REUSEADDR`, bind fails if any other socket is bound. Setting the option afterwards lets a
/// server with that option listen on the port, on Linux.
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
            // Like another process.
            assert_eq!(reserve(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            assert_eq!(reserve(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (accepted, _) = server.accept().unwrap();
            // The server's side closes first, and its connection remains in TIME_WAIT.
            drop((accepted, server, client));
        }
    }

    #[test]
    fn no_more_ports_are_reserved_than_the_bound_and_the_oldest_go_first() {
        let port = |socket: &Socket| socket.local_addr().unwrap().as_socket().unwrap().port();
        let mut reserved = VecDeque::new();
        let ports: Vec<u16> = (0..=MOST_RESERVED)
            .map(|_| {
                // The kernel chooses the port, so that other tests lose none.
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
