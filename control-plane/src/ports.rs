//! Loopback ports that stay free until their server starts.
//!
//! Knows: how the kernel gives out ports. Must not know: which server wants one.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::Context as _;
use socket2::{Domain, Socket, Type};

/// Below the range from which most kernels take the ports of outgoing connections: one of those would otherwise hold a port
/// while its server is restarted.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Each process begins its search this far from the next, so that test processes started together do not all look at the
/// same ports.
const STRIDE: u32 = 128;

static TAKEN: AtomicU16 = AtomicU16::new(0);

/// What keeps the ports of this process from others: a socket for each, a few hundred in the longest test.
static RESERVED: Mutex<Vec<Socket>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 on which no server listens, and which neither this process nor, on Linux, another one is given while
/// this one lives.
///
/// The server that listens there must set `SO_REUSEADDR`, as those of Go and of the standard library do.
pub fn free_port() -> anyhow::Result<u16> {
    let start = process::id().wrapping_mul(STRIDE) % u32::from(COUNT);
    let (port, reserved) = (0..COUNT)
        .map(|_| {
            let step = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
            let offset = (start + step) % u32::from(COUNT);
            FIRST + u16::try_from(offset).expect("the remainder by a u16 fits one")
        })
        .find_map(|port| reserve(port).ok().map(|socket| (port, socket)))
        .with_context(|| {
            format!("no free port on 127.0.0.1 from {FIRST} on; end some of the servers that run there")
        })?;
    // Only Linux lets a server listen where another socket is bound.
    if cfg!(target_os = "linux") {
        RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reserved);
    }
    Ok(port)
}

/// A socket that is bound to a port and never listens.
///
/// It is bound without `SO_REUSEADDR`, which fails where any other socket is, and permits its address to be used again only then:
/// Linux lets a server that does the same listen beside it.
fn reserve(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into())?;
    socket.set_reuse_address(true)?;
    Ok(socket)
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
    fn a_port_where_a_server_listens_is_not_given() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(reserve(server.local_addr().unwrap().port()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
