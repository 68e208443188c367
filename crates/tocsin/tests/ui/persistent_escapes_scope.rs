//! A persistent collective of a borrowed buffer outside its scope.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut buffer = [0u8; 4];
        let mut sum = comm.scope(|s| s.allreduce_init(&mut buffer, tocsin::Op::Sum))?;
        sum.start()
    });
}
