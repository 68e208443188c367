//! Collectives in which any two of what they depend on stand together.

use std::sync::OnceLock;

use tocsin_nbc::table::Operation;
use tocsin_world::Comm;

use super::call::{Call, Combine, PIECES};
use super::pairwise::Model;
use super::{finish, first_of, fits_board, post_by, space};
use crate::random::Random;
use crate::run::{Arguments, BACKENDS, Kind};

/// Where its values are in a row.
const RANKS: usize = 1;
const WORLD: usize = 8;

/// Kinds of ranks, each with each backend.
pub const WORLDS: usize = Kind::ALL.len() * BACKENDS.len();

/// The numbers of ranks.
pub const ALL_RANKS: [u32; 6] = space::RANKS;

/// What there is, and what goes together: on a board, long parts in worlds of up to 32 ranks, and as much as these have in one round, and a little more.
pub fn model() -> Model<impl Fn(&[Option<usize>]) -> bool> {
    space::model(Combine::affine().op, 34 << 20, 1 + PIECES.len(), WORLDS, |ranks| ranks <= 32)
}

/// Rows that cover it.
pub fn pairwise_rows() -> &'static [Vec<usize>] {
    static ROWS: OnceLock<Vec<Vec<usize>>> = OnceLock::new();
    ROWS.get_or_init(|| model().rows())
}

/// Those of a number of ranks in a world, by their numbers.
pub fn rows_of(ranks: u32, world: usize) -> impl Iterator<Item = &'static Vec<usize>> {
    pairwise_rows().iter().filter(move |row| ALL_RANKS[row[RANKS]] == ranks && row[WORLD] == world)
}

fn call(row: &[usize], ranks: u32, seed: u64) -> (Call, Option<&'static str>) {
    let [call, _, root, size, data_type, operator, in_place, layout, _] = *row else {
        panic!("{row:?}");
    };
    let (operation, algorithm, _) = space::called()[call];
    let data_type = space::types()[data_type];
    let op = space::operators(Combine::affine().op)[operator].unwrap_or(Combine::FLOATS.op);
    let call = Call {
        operation,
        algorithm: algorithm.unwrap_or_else(|| first_of(operation)),
        combine: Combine { op, data_type },
        seed,
        run: 0,
        elements: space::count(size, data_type.size()),
        root: [0, 1, ranks - 1][root],
        in_place: in_place == 1,
        pieces: layout.checked_sub(1).map(|layout| PIECES[layout]),
    };
    (call, algorithm.map(|a| a.name))
}

/// Rows as a word, for [`pairwise`]: to make them takes longer than to run a few.
pub fn said(rows: &[&Vec<usize>]) -> String {
    let row = |row: &&Vec<usize>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    rows.iter().map(row).collect::<Vec<_>>().join("/")
}

/// The `rows` that are [said], of so many ranks.
pub fn pairwise(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let rows = arguments.text("rows");
    for said in rows.split('/') {
        let value = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word:?} in {said}"));
        let row: Vec<usize> = said.split('.').map(value).collect();
        assert_eq!(ALL_RANKS[row[RANKS]], comm.size(), "{said}");
        let (call, name) = call(&row, comm.size(), random.bits());
        assert!(
            !call.algorithm.restrictions.needs_board() || name.is_none() || fits_board(&call, comm),
            "{call:?}"
        );
        assert!(call.operation != Operation::Ibarrier || call.elements == 0);
        finish(comm, post_by(comm, call, name));
    }
}
