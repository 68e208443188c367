//! A buffer that lives shorter than the scope.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        comm.scope(|s| {
            let request = {
                let mut short = [0u8; 4];
                s.irecv(&mut short, 0, 0)?
            };
            request.wait().map(|_| ())
        })
    });
}
