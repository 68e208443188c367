//! The guard that makes a thread interruptible, on another thread.
fn main() {
    let world = tocsin::World::from_env().unwrap();
    std::thread::spawn(move || drop(world));
}
