//! The guard that masks a thread, on another thread.
fn main() {
    let masked = tocsin::Masked::new();
    std::thread::spawn(move || drop(masked));
}
