//! Reading a buffer that a request holds.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        comm.scope(|s| {
            let request = s.irecv(&mut buffer, 0, 0)?;
            let early = buffer[0];
            request.wait()?;
            Ok(early)
        })
    });
}
