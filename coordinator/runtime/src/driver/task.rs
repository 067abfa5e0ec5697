//! The machine as a task of the runtime.
//!
//! Knows: how a task rests until an event or a moment. Must not know: what a turn does.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Poll, Wake, Waker},
};

use flotilla_machine::machine::Machine;
use tokio::sync::Notify;

use super::{Handle, Performer, Turn, now, open};

/// As [`spawn`](super::spawn), but the machine is a task of the present runtime, and its clock is that of the runtime: for a
/// runtime of one thread whose time is held, where everything that happens is repeatable. Elsewhere a decision would hold up
/// the other tasks.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn spawn_task(machine: Machine, performer: impl Performer) -> Handle {
    let (mut owner, near) = open(machine, performer);
    let stop = Arc::new(Stop(Notify::new()));
    let handle = near.woken_by(Waker::from(Arc::clone(&stop)));
    tokio::spawn(async move {
        let mut stopped = pin!(stop.0.notified());
        let mut alarm = pin!(tokio::time::sleep(std::time::Duration::ZERO));
        poll_fn(|context| {
            // The next turn sees that it is to end.
            let _ = stopped.as_mut().poll(context);
            match owner.turn(context) {
                Turn::End => Poll::Ready(()),
                Turn::Again => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Turn::Rest(None) => Poll::Pending,
                Turn::Rest(Some(rest)) => {
                    alarm.as_mut().reset((now() + rest).into());
                    if alarm.as_mut().poll(context).is_ready() {
                        context.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        })
        .await;
    });
    handle
}

/// Wakes the task that is to end.
struct Stop(Notify);

impl Wake for Stop {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}
