//! The buffer of a persistent collective, reached between two runs and kept over the next start.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        comm.scope(|s| {
            let mut sum = s.allreduce_init(&mut buffer, tocsin::Op::Sum)?;
            let inside = sum.buffer_mut()?;
            sum.start()?;
            inside[0] = 1;
            sum.wait()
        })
    });
}
