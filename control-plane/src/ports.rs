//! Loopback ports that stay free until their server starts.
//!
//! Knows: how the kernel gives out ports. Must not know: which server wants one.

use std::{
    net::{Ipv4Addr, TcpListener},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::Context;

/// Below the range from which the kernel takes the ports of outgoing connections: one of those would otherwise sit on
/// a port between our look and the server's start, or while a server is restarted.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Each process begins its search this far from the next, so that test processes started together do not look at the
/// same ports at the same time.
const STRIDE: u32 = 128;

static TAKEN: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 on which no server listens, and which this process has not been given before.
pub fn free_port() -> anyhow::Result<u16> {
    let start = process::id().wrapping_mul(STRIDE) % u32::from(COUNT);
    (0..COUNT)
        .map(|_| {
            let step = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
            let offset = (start + step) % u32::from(COUNT);
            FIRST + u16::try_from(offset).expect("the remainder by a u16 fits one")
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .with_context(|| format!("no free port on 127.0.0.1 from {FIRST} on; end some of the servers that run there"))
}
