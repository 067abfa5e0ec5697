//! A loopback proxy that can cut, stall and slow its connections.

use std::{io, net::Ipv4Addr, time::Duration};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::plan::Trouble;

/// Read size in bytes; the rest stays in the kernel.
const PIECE: usize = 16 << 10;

/// A proxy for one loopback port; dropping it ends it.
#[derive(Debug)]
pub(super) struct Link {
    port: u16,
    trouble: watch::Sender<Option<Trouble>>,
    serving: JoinHandle<()>,
}

impl Link {
    pub(super) async fn start(to: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port of 127.0.0.1 is free")?;
        let port = listener.local_addr()?.port();
        let (trouble, seen) = watch::channel(None);
        Ok(Self { port, trouble, serving: tokio::spawn(serve(listener, to, seen)) })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set(&self, trouble: Option<Trouble>) {
        self.trouble.send_replace(trouble);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, to: u16, trouble: watch::Receiver<Option<Trouble>>) {
    // Aborted with this task.
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        connections.spawn(carry(near, to, trouble.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(near: TcpStream, to: u16, mut trouble: watch::Receiver<Option<Trouble>>) {
    let both = async {
        if *trouble.borrow() == Some(Trouble::Cut) {
            return Ok(());
        }
        let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
        tokio::select! {
            there = pump(from_near, to_far, trouble.clone()) => there,
            back = pump(from_far, to_near, trouble.clone()) => back,
            _ = trouble.wait_for(|trouble| *trouble == Some(Trouble::Cut)) => Ok(()),
        }
    };
    // Connections break on purpose.
    drop::<io::Result<()>>(both.await);
}

/// Copies one direction. Read data is delivered even if the sender is gone, as in a network.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut trouble: watch::Receiver<Option<Trouble>>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        if trouble.wait_for(|trouble| *trouble != Some(Trouble::Stalled)).await.is_err() {
            return Ok(());
        }
        sleep(delay(&trouble)).await;
        to.write_all(&piece[..count]).await?;
    }
}

fn delay(trouble: &watch::Receiver<Option<Trouble>>) -> Duration {
    match *trouble.borrow() {
        Some(Trouble::Slow(by)) => by,
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    async fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        port
    }

    async fn say(stream: &mut TcpStream) -> io::Result<Duration> {
        let begun = Instant::now();
        stream.write_all(b"hello").await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"hello");
        Ok(begun.elapsed())
    }

    #[tokio::test]
    async fn connections_are_slowed_stalled_cut_and_good_again() {
        let link = Link::start(echo().await).await.expect("a free port");
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, link.port()));
        let mut stream = connect().await.expect("it listens");
        say(&mut stream).await.expect("it is carried");

        link.set(Some(Trouble::Slow(Duration::from_millis(50))));
        assert!(say(&mut stream).await.expect("it is carried") >= Duration::from_millis(100), "there and back");

        link.set(Some(Trouble::Stalled));
        let mut waits = Box::pin(say(&mut stream));
        timeout(Duration::from_millis(100), &mut waits).await.expect_err("nothing comes through");
        link.set(None);
        waits.await.expect("all comes through");

        link.set(Some(Trouble::Cut));
        let mut other = connect().await.expect("the kernel takes it");
        for stream in [&mut stream, &mut other] {
            let ended = timeout(Duration::from_secs(5), say(stream)).await.expect("it does not hang");
            ended.expect_err("it is cut");
        }
        link.set(None);
        say(&mut connect().await.expect("it listens")).await.expect("it is carried");
    }
}
