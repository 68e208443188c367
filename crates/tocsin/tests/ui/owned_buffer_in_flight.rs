//! Using a buffer that an owned request took.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let buffer = vec![0u8; 4];
        let request = comm.isend(buffer, 0, 0)?;
        let first = buffer[0];
        request.wait()?;
        Ok::<u8, tocsin::Error>(first)
    });
}
