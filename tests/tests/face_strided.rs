//! Blocks in pieces by the face, with ranks as threads, on every backend: each of the displaced forms, columns of a matrix to
//! and from rows; and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{Block, Blocks, Error, Strided, World};

/// Rows, and elements of a piece: short pieces and long ones, messages of one packet and announced ones.
const SHAPES: [(usize, usize); 5] = [(1, 5), (9, 1), (40, 30), (30_000, 1), (4, 20_000)];

/// The elements that `from` has for `to`.
fn block(from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 1 + from * 1_000_000 + to * 200_000 + i).collect()
}

/// A matrix of `rows` rows, with a column of `width` elements for each rank, and one that is nobody's.
struct Matrix {
    columns: Vec<Strided>,
    len: usize,
}

impl Matrix {
    fn new(rows: usize, width: usize, ranks: u32) -> Matrix {
        let stride = width * ranks as usize + 1;
        let column = |start| Strided { start, count: rows, length: width, stride };
        Matrix { columns: (0..ranks as usize).map(|r| column(r * width)).collect(), len: rows * stride }
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::strided(&self.columns)
    }

    fn bytes(&self) -> Vec<Block> {
        let block = |c: &Strided| Block::strided(c.start * 4, c.count, c.length * 4, c.stride * 4);
        self.columns.iter().map(block).collect()
    }

    /// With these columns; sevens elsewhere.
    fn filled(&self, of: impl Fn(u32) -> Option<Vec<u32>>) -> Vec<u32> {
        let mut all = vec![7; self.len];
        for (rank, column) in (0..).zip(&self.columns) {
            let Some(block) = of(rank) else { continue };
            for (row, piece) in block.chunks(column.length).enumerate() {
                all[column.start + row * column.stride..][..piece.len()].copy_from_slice(piece);
            }
        }
        all
    }
}

#[test]
fn columns() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        for (rows, width) in SHAPES {
            let (matrix, len) = (Matrix::new(rows, width, ranks), rows * width);
            let root = ranks / 2;
            let send = if me == root { matrix.filled(|to| Some(block(root, to, len))) } else { Vec::new() };
            assert_eq!(
                comm.iscatterv(send.clone(), matrix.blocks(), vec![0; len], root)?.wait()?,
                block(root, me, len)
            );
            let mine = if me == root { send.clone() } else { vec![0; len] };
            let kept = comm.iscatterv_in_place(mine, matrix.blocks(), root)?.wait()?;
            assert_eq!(kept, if me == root { send } else { block(root, me, len) });

            let gathered = matrix.filled(|from| Some(block(from, root, len)));
            let room = if me == root { vec![7; matrix.len] } else { Vec::new() };
            let got = comm.igatherv(block(me, root, len), room, matrix.blocks(), root)?.wait()?;
            assert!(me != root || got == gathered);
            let mine = match me == root {
                true => matrix.filled(|from| (from == me).then(|| block(from, root, len))),
                false => block(me, root, len),
            };
            let got = comm.igatherv_in_place(mine.clone(), matrix.blocks(), root)?.wait()?;
            assert_eq!(got, if me == root { gathered } else { mine });

            let out = matrix.filled(|to| Some(block(me, to, len)));
            let back = matrix.filled(|from| Some(block(from, me, len)));
            let run: Vec<u32> = (0..ranks).flat_map(|from| block(from, me, len)).collect();
            let counts = vec![len; ranks as usize];
            let packed = Blocks::packed(&counts);
            // From columns to rows, from rows to columns, and from columns to columns.
            let mut rows = vec![0; run.len()];
            comm.alltoallv(&out, matrix.blocks(), &mut rows, packed)?;
            assert_eq!(rows, run);
            let rows: Vec<u32> = (0..ranks).flat_map(|to| block(me, to, len)).collect();
            let got = comm.ialltoallv(rows, packed, vec![7; matrix.len], matrix.blocks())?.wait()?;
            assert_eq!(got, back);
            let mut got = vec![7; matrix.len];
            comm.alltoallw(&out, &matrix.bytes(), &mut got, &matrix.bytes())?;
            assert_eq!(got, back);
            assert_eq!(comm.ialltoallv_in_place(out, matrix.blocks())?.wait()?, back);
        }
        Ok(())
    });
}

#[test]
fn columns_for_all_by_every_algorithm() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        for (rows, width) in SHAPES {
            let (matrix, len) = (Matrix::new(rows, width, ranks), rows * width);
            let gathered = matrix.filled(|from| Some(block(from, 0, len)));
            let mine = matrix.filled(|from| (from == me).then(|| block(from, 0, len)));
            for algorithm in ["linear", "ring", "bruck", "recursive-doubling"] {
                if algorithm == "recursive-doubling" && !ranks.is_power_of_two() {
                    continue;
                }
                let by = comm.with_algorithm(algorithm);
                let mut got = vec![7; matrix.len];
                by.allgatherv(&block(me, 0, len), &mut got, matrix.blocks())?;
                assert!(got == gathered, "{algorithm}");
                // Others have them in one run: where they stand is each rank's own business.
                let counts = vec![len; ranks as usize];
                let run: Vec<u32> = (0..ranks).flat_map(|from| block(from, 0, len)).collect();
                if me == 0 {
                    got = by.iallgatherv_in_place(mine.clone(), matrix.blocks())?.wait()?;
                    assert!(got == gathered, "{algorithm}");
                } else {
                    let room = vec![0; run.len()];
                    got = by.iallgatherv(block(me, 0, len), room, Blocks::packed(&counts))?.wait()?;
                    assert!(got == run, "{algorithm}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn columns_restarted() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        for (rows, width) in SHAPES {
            let (matrix, len) = (Matrix::new(rows, width, ranks), rows * width);
            let (mut out, mut back) = (vec![0; matrix.len], vec![7; matrix.len]);
            comm.scope(|s| {
                let mut exchange = s.alltoallv_init(&mut out, matrix.blocks(), &mut back, matrix.blocks())?;
                for run in 1..4 {
                    let out = matrix.filled(|to| Some(block(me + 10 * run, to, len)));
                    exchange.send_mut()?.copy_from_slice(&out);
                    exchange.start()?;
                    exchange.wait()?;
                    assert!(exchange.recv()? == matrix.filled(|from| Some(block(from + 10 * run, me, len))));
                }
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn what_does_not_fit_is_refused_with_a_text() {
    let results = World::threads(2, |comm| {
        let column = |start, count, length, stride| Strided { start, count, length, stride };
        let received = |a, b| comm.iallgatherv_in_place(vec![0u16; 9], Blocks::strided(&[a, b])).map(drop);
        let fits = column(0, 3, 1, 3);
        let far = Block::strided(0, 3, 2, usize::MAX / 2);
        let texts = [
            comm.iallgatherv_in_place(vec![0u16; 9], Blocks::strided(&[fits])).map(drop),
            received(fits, column(3, 3, 1, 3)),
            received(fits, column(7, 2, 1, 2)),
            received(fits, column(0, usize::MAX, 1, 1)),
            received(fits, column(usize::MAX, 1, 1, 1)),
            received(fits, column(1, usize::MAX, 1, usize::MAX)),
            received(column(1, 3, 2, 1), fits),
            received(column(1, usize::MAX, 2, 0), fits),
            received(fits, column(2, 2, 2, 4)),
            comm.ialltoallw_in_place(vec![0u16; 9], &[Block::new(0, 2), Block::strided(2, 5, 2, 4)])
                .map(drop),
            comm.ialltoallw_in_place(vec![0u16; 9], &[Block::new(0, 2), far]).map(drop),
            comm.ialltoallw_in_place(vec![0u16; 9], &[Block::new(0, 2), Block::strided(2, 3, 2, 1)])
                .map(drop),
        ];
        // Columns beside each other do not overlap; what was refused alike on all ranks leaves them in step.
        comm.allgatherv_in_place(&mut [0u16; 9], Blocks::strided(&[fits, column(1, 3, 2, 3)]))?;
        Ok::<_, Error>(texts.map(|result| result.unwrap_err().to_string()))
    })
    .unwrap();
    let says = [
        "needs one block for each of the 2 ranks",
        "block 1 of the receive buffer, 3 pieces of 1 elements at a stride of 3 from 3 on, leaves its 9 elements",
        "block 1 of the receive buffer, 2 pieces of 1 elements at a stride of 2 from 7 on, leaves its 9 elements",
        "leaves its 9 elements",
        "leaves its 9 elements",
        "leaves its 9 elements",
        "the pieces of a block overlap: make its stride at least the length",
        "the pieces of a block overlap",
        "two blocks of the receive buffer overlap",
        "all within its 18 bytes",
        "all within its 18 bytes",
        "the pieces of a block overlap",
    ];
    for texts in results {
        for (text, says) in texts.unwrap().iter().zip(says) {
            assert!(text.contains(says), "{text:?} does not say {says:?}");
        }
    }
}

/// What is empty stands nowhere, wherever it says: the column of a matrix that has no rows here.
#[test]
fn empty_blocks_may_begin_anywhere() {
    everywhere(1..=4, |comm| {
        let (ranks, rows) = (comm.size() as usize, [0, 3][comm.rank() as usize % 2]);
        let stride = 2 * ranks;
        let columns: Vec<Strided> =
            (0..ranks).map(|to| Strided { start: 2 * to, count: rows, length: 2, stride }).collect();
        let matrix: Vec<u32> = (0..(rows * stride) as u32).collect();
        let from = |rank: usize| [0, 3][rank % 2] * 2;
        let counts: Vec<usize> = (0..ranks).map(from).collect();
        // Those of who has none lie beyond the end.
        let starts: Vec<usize> = (0..ranks)
            .map(|rank| if from(rank) == 0 { 1 << 40 } else { counts[..rank].iter().sum() })
            .collect();
        let got = comm
            .ialltoallv(
                matrix,
                Blocks::strided(&columns),
                vec![7; counts.iter().sum()],
                Blocks::placed(&counts, &starts),
            )?
            .wait()?;
        let mine = 2 * comm.rank();
        let column = |rank: usize| {
            (0..from(rank) as u32 / 2).flat_map(move |row| [0, 1].map(|i| row * stride as u32 + mine + i))
        };
        assert_eq!(got, (0..ranks).flat_map(column).collect::<Vec<u32>>());
        Ok(())
    });
}
