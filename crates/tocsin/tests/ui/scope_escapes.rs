//! The scope itself outside its closure.
fn main() {
    let _ = tocsin::World::threads(1, |comm| {
        let mut kept = None;
        comm.scope(|s| {
            kept = Some(s);
            Ok(())
        })
    });
}
