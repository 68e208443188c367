//! Two requests on one buffer.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        comm.scope(|s| {
            let first = s.irecv(&mut buffer, 0, 0)?;
            let second = s.irecv(&mut buffer, 0, 1)?;
            first.wait()?;
            second.wait().map(|_| ())
        })
    });
}
