//! The machine as a task of the runtime.

use std::{
    future::{Future as _, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Poll, Wake, Waker},
};

use tokio::sync::Notify;

use super::{Course, Handle, Performer, Turn, now, open};

/// As [`spawn`](super::spawn), but as a task of the current runtime, on its clock. It is for a deterministic runtime of one thread with a
/// paused clock. Elsewhere a decision would block the other tasks.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn spawn_task(course: impl Course, performer: impl Performer) -> Handle {
    let (mut owner, near) = open(None, course, performer);
    let stop = Arc::new(Stop(Notify::new()));
    let handle = near.woken_by(Waker::from(Arc::clone(&stop)));
    tokio::spawn(async move {
        let mut stopped = pin!(stop.0.notified());
        let mut alarm = pin!(tokio::time::sleep(std::time::Duration::ZERO));
        poll_fn(|context| {
            // The next turn sees the stop.
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

struct Stop(Notify);

impl Wake for Stop {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}
