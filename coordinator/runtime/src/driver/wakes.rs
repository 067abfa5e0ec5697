//! Wakes of the machine's thread, put off until the thread that tells it something rests.
//!
//! A thread of tasks tells the machine several things before it rests: what was received at once on several connections. The machine
//! takes each in within microseconds and would rest again between two of them, so that each would cost a call of futex on both
//! sides and two switches of threads. A thread that says when it rests owes one wake for all.
//!
//! Knows: which thread rests, and what it owes. Must not know: what the machine is told.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    task::{Wake, Waker},
    thread::Thread,
};

/// What is told at most before the machine is woken although the thread that tells does not rest. It decodes an object in some
/// 30 us, so that the machine waits a quarter of a millisecond at most.
const MOST: u32 = 8;

thread_local! {
    /// This thread calls [`before_rest`].
    static RESTS: Cell<bool> = const { Cell::new(false) };
    /// Whom this thread is to wake.
    static OWED: RefCell<Option<Thread>> = const { RefCell::new(None) };
    /// What it has told since it began to owe that.
    static TOLD: Cell<u32> = const { Cell::new(0) };
}

/// Wakes the machine's thread if the calling thread told it something. From its first call on, a thread has to call this each time
/// before it rests, as a runtime does by `on_thread_park`; all other threads wake the machine at once.
pub fn before_rest() {
    RESTS.set(true);
    pay();
}

/// Something was told, and the waker was called if the machine rests.
pub(super) fn told() {
    if OWED.with_borrow(Option::is_some) {
        TOLD.set(TOLD.get() + 1);
        if TOLD.get() >= MOST {
            pay();
        }
    }
}

/// Wakes the calling thread, which is the machine's.
pub(super) fn waker() -> Waker {
    Waker::from(Arc::new(Owing(std::thread::current())))
}

fn pay() {
    TOLD.set(0);
    if let Some(thread) = OWED.take() {
        thread.unpark();
    }
}

struct Owing(Thread);

impl Wake for Owing {
    fn wake(self: Arc<Self>) {
        if !RESTS.get() {
            return self.0.unpark();
        }
        // Of another machine, which tests may have.
        if let Some(other) = OWED.replace(Some(self.0.clone())).filter(|other| other.id() != self.0.id()) {
            other.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{self, Receiver, RecvTimeoutError},
        thread,
        time::Duration,
    };

    use super::*;

    /// A thread that tells each time that it is woken, and its waker.
    fn sleeper() -> (Waker, Receiver<()>) {
        let ((give, given), (tell, told)) = (mpsc::channel(), mpsc::channel());
        thread::spawn(move || {
            give.send(waker()).expect("somebody waits");
            loop {
                thread::park();
                if tell.send(()).is_err() {
                    return;
                }
            }
        });
        (given.recv().expect("a waker"), told)
    }

    fn sleeps(told: &Receiver<()>) -> bool {
        told.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout)
    }

    /// On a thread of its own, as what a thread owes stays with it.
    fn apart(test: impl FnOnce() + Send + 'static) {
        thread::spawn(test).join().expect("it passes");
    }

    #[test]
    fn a_thread_that_says_when_it_rests_wakes_the_machine_then() {
        apart(|| {
            let (waker, woken) = sleeper();
            before_rest();
            waker.wake_by_ref();
            told();
            assert!(sleeps(&woken));
            before_rest();
            woken.recv().expect("it is woken");
            before_rest();
            assert!(sleeps(&woken), "nothing is owed twice");
        });
    }

    #[test]
    fn a_thread_that_does_not_rest_wakes_the_machine_after_so_much() {
        apart(|| {
            let (waker, woken) = sleeper();
            before_rest();
            waker.wake_by_ref();
            for _ in 1..MOST {
                told();
            }
            assert!(sleeps(&woken));
            told();
            woken.recv().expect("it is woken");
        });
    }

    #[test]
    fn other_threads_wake_the_machine_at_once_and_two_machines_are_both_woken() {
        apart(|| {
            let ((one, of_one), (other, of_other)) = (sleeper(), sleeper());
            one.wake_by_ref();
            of_one.recv().expect("it is woken");
            before_rest();
            one.wake_by_ref();
            other.wake_by_ref();
            of_one.recv().expect("it is woken");
            before_rest();
            of_other.recv().expect("it is woken");
        });
    }
}
