//! Program of the real node's containers: waits for its termination.

fn main() {
    loop {
        std::thread::park();
    }
}
