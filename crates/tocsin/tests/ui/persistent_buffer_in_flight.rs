//! A buffer that a persistent collective of the scope has borrowed, written by its owner.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        comm.scope(|s| {
            let mut sum = s.allreduce_init(&mut buffer, tocsin::Op::Sum)?;
            sum.start()?;
            buffer[0] = 1;
            sum.wait()
        })
    });
}
