//! Wakes of the machine's thread, delayed until the sending thread rests.
//!
//! A runtime thread sends the machine several events before it rests. The machine applies each in microseconds and would rest in between: a
//! futex call on both sides and two context switches for each. A thread that announces its rest wakes the machine once for all.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    task::{Wake, Waker},
    thread::Thread,
};

/// Events that a thread sends at most before it wakes the machine without resting. Decoding an object takes some 30 us, so that the machine
/// waits a quarter of a millisecond at most.
const MOST: u32 = 8;

thread_local! {
    static RESTS: Cell<bool> = const { Cell::new(false) };
    static OWED: RefCell<Option<Thread>> = const { RefCell::new(None) };
    /// Events sent since the wake became due.
    static TOLD: Cell<u32> = const { Cell::new(0) };
}

/// Wakes the machine's thread if the calling thread has sent it events. After its first call, a thread has to call this before each rest,
/// as a runtime does with `on_thread_park`. All other threads wake the machine at once.
pub fn before_rest() {
    RESTS.set(true);
    pay();
}

pub(super) fn told() {
    if OWED.with_borrow(Option::is_some) {
        TOLD.set(TOLD.get() + 1);
        if TOLD.get() >= MOST {
            pay();
        }
    }
}

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
        // Tests may have several machines.
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
