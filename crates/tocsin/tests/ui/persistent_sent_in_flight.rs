//! What a forgotten persistent collective of the scope sends is not given back within the scope.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let (mut send, mut recv) = ([0u8; 4], [0u8; 4]);
        comm.scope(|s| {
            let mut exchange = s.alltoall_init(&mut send, &mut recv)?;
            exchange.start()?;
            std::mem::forget(exchange);
            send[0] = 1;
            Ok(())
        })
    });
}
