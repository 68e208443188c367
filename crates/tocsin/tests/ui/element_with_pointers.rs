//! Elements that are not plain numbers.
fn main() {
    let _ = tocsin::World::threads(1, |comm| comm.isend(vec![String::new()], 0, 0).map(drop));
}
