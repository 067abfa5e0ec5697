//! What the containers of the real node run: a program that waits to be ended.
//!
//! Knows: nothing. Must not know: that it is in a container.

fn main() {
    loop {
        std::thread::park();
    }
}
