//! A scoped request outside its scope.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        let request = comm.scope(|s| s.irecv(&mut buffer, 0, 0))?;
        request.wait().map(|_| ())
    });
}
