//! Forgetting a request does not give its buffer back within the scope.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        comm.scope(|s| {
            std::mem::forget(s.irecv(&mut buffer, 0, 0)?);
            buffer[0] = 1;
            Ok(())
        })
    });
}
