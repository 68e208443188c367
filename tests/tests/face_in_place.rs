//! In-place forms by the face, with ranks as threads: owned, scoped, blocking and persistent, on every backend, mixed with the
//! forms of two buffers; and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{Block, Blocks, Error, Op, Persistent, UserOp, World};

/// The elements that `from` has for `to`.
fn block(from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| 1 + from * 1_000_000 + to * 100_000 + i).collect()
}

/// Short enough for a board, of more than one packet, and announced.
const LENGTHS: [usize; 3] = [9, 700, 30_000];

/// A buffer with places of its own for the blocks: backwards, one element apart, each filled by `of`.
struct Placed {
    counts: Vec<usize>,
    starts: Vec<usize>,
    whole: usize,
}

impl Placed {
    fn new(counts: Vec<usize>) -> Placed {
        let mut starts = vec![0; counts.len()];
        let mut whole = 1;
        for r in (0..counts.len()).rev() {
            starts[r] = whole;
            whole += counts[r] + 1;
        }
        Placed { counts, starts, whole }
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::placed(&self.counts, &self.starts)
    }

    fn bytes(&self) -> Vec<Block> {
        let places = self.starts.iter().zip(&self.counts);
        places.map(|(start, count)| Block::new(start * 4, count * 4)).collect()
    }

    fn filled(&self, of: impl Fn(u32, usize) -> Option<Vec<u32>>) -> Vec<u32> {
        let mut all = vec![7; self.whole];
        for (r, (start, count)) in (0..).zip(self.starts.iter().zip(&self.counts)) {
            if let Some(block) = of(r, *count) {
                all[*start..start + count].copy_from_slice(&block);
            }
        }
        all
    }
}

#[test]
fn blocks_of_one_length() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        for len in LENGTHS {
            let all = |of: &dyn Fn(u32) -> Vec<u32>| (0..ranks).flat_map(of).collect::<Vec<u32>>();
            let only_mine =
                |of: &dyn Fn(u32) -> Vec<u32>| all(&|rank| if rank == me { of(rank) } else { vec![0; len] });
            for root in 0..ranks {
                let mine = if me == root { all(&|to| block(root, to, len)) } else { vec![0; len] };
                let expected = if me == root { mine.clone() } else { block(root, me, len) };
                assert_eq!(comm.iscatter_in_place(mine.clone(), root)?.wait()?, expected);
                let mut kept = mine;
                comm.scatter_in_place(&mut kept, root)?;
                assert_eq!(kept, expected);
                // The root in place, the others with two buffers.
                if me == root {
                    assert_eq!(comm.iscatter_in_place(kept, root)?.wait()?, expected);
                } else {
                    assert_eq!(comm.iscatter(Vec::new(), vec![0; len], root)?.wait()?, expected);
                }

                let from = |rank| block(rank, root, len);
                let mine = if me == root { only_mine(&from) } else { block(me, root, len) };
                let expected = if me == root { all(&from) } else { mine.clone() };
                assert_eq!(comm.igather_in_place(mine.clone(), root)?.wait()?, expected);
                let mut kept = mine;
                comm.gather_in_place(&mut kept, root)?;
                assert_eq!(kept, expected);
            }
            let from = |rank| block(rank, 0, len);
            let mut gathered = only_mine(&from);
            comm.allgather_in_place(&mut gathered)?;
            assert_eq!(gathered, all(&from));
            if me == 0 {
                assert_eq!(comm.iallgather_in_place(only_mine(&from))?.wait()?, all(&from));
            } else {
                let room = vec![0; len * ranks as usize];
                assert_eq!(comm.iallgather(block(me, 0, len), room)?.wait()?, all(&from));
            }

            let (out, expected) = (all(&|to| block(me, to, len)), all(&|from| block(from, me, len)));
            assert_eq!(comm.ialltoall_in_place(out.clone())?.wait()?, expected);
            let mut kept = out.clone();
            comm.alltoall_in_place(&mut kept)?;
            assert_eq!(kept, expected);
            if me == 0 {
                assert_eq!(comm.ialltoall_in_place(out)?.wait()?, expected);
            } else {
                assert_eq!(comm.ialltoall(out)?.wait()?, expected);
            }
        }
        Ok(())
    });
}

#[test]
fn blocks_of_many_lengths() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        for len in LENGTHS {
            let at = Placed::new((0..ranks as usize).map(|r| len * (r % 3)).collect());
            let own = at.counts[me as usize];
            let root = ranks / 2;
            let mine = if me == root { at.filled(|to, n| Some(block(root, to, n))) } else { vec![0; own] };
            let expected = if me == root { mine.clone() } else { block(root, me, own) };
            assert_eq!(comm.iscatterv_in_place(mine.clone(), at.blocks(), root)?.wait()?, expected);
            let mut kept = mine;
            comm.scatterv_in_place(&mut kept, at.blocks(), root)?;
            assert_eq!(kept, expected);

            let mine = match me == root {
                true => at.filled(|from, n| (from == me).then(|| block(from, root, n))),
                false => block(me, root, own),
            };
            let expected =
                if me == root { at.filled(|from, n| Some(block(from, root, n))) } else { mine.clone() };
            assert_eq!(comm.igatherv_in_place(mine.clone(), at.blocks(), root)?.wait()?, expected);
            let mut kept = mine;
            comm.gatherv_in_place(&mut kept, at.blocks(), root)?;
            assert_eq!(kept, expected);

            let mine = at.filled(|from, n| (from == me).then(|| block(from, 0, n)));
            let expected = at.filled(|from, n| Some(block(from, 0, n)));
            assert_eq!(comm.iallgatherv_in_place(mine.clone(), at.blocks())?.wait()?, expected);
            let mut kept = mine;
            comm.allgatherv_in_place(&mut kept, at.blocks())?;
            assert_eq!(kept, expected);

            let at = Placed::new((0..ranks).map(|r| len * ((me + r) as usize % 3)).collect());
            let mine = at.filled(|to, n| Some(block(me, to, n)));
            let expected = at.filled(|from, n| Some(block(from, me, n)));
            assert_eq!(comm.ialltoallv_in_place(mine.clone(), at.blocks())?.wait()?, expected);
            assert_eq!(comm.ialltoallw_in_place(mine.clone(), &at.bytes())?.wait()?, expected);
            let mut kept = mine.clone();
            comm.alltoallv_in_place(&mut kept, at.blocks())?;
            assert_eq!(kept, expected);
            kept.copy_from_slice(&mine);
            comm.alltoallw_in_place(&mut kept, &at.bytes())?;
            assert_eq!(kept, expected);
        }
        Ok(())
    });
}

#[test]
fn parts_of_a_reduction() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank() as usize, comm.size() as usize);
        // Keeps the left operand: rank 0's, if the order is kept.
        let left = Op::User(UserOp::ordered(|left: u64, _| left));
        let mine = |n: usize| (0..n as u64).map(|i| i + 1000 * me as u64).collect::<Vec<_>>();
        let sum = |i: usize| (ranks * i + 1000 * (ranks * (ranks - 1) / 2)) as u64;
        let (each, start) = (40, me * 40);
        let part = comm.ireduce_scatter_block_in_place(mine(each * ranks), Op::Sum)?.wait()?;
        assert!((0..each).all(|i| part[i] == sum(start + i)));
        let mut kept = mine(each * ranks);
        comm.reduce_scatter_block_in_place(&mut kept, left)?;
        assert!((0..each).all(|i| kept[i] == (start + i) as u64));

        let counts: Vec<usize> = (0..ranks).map(|r| r * 10).collect();
        let (whole, start): (usize, usize) = (counts.iter().sum(), counts[..me].iter().sum());
        let part = comm.ireduce_scatter_in_place(mine(whole), &counts, Op::Sum)?.wait()?;
        assert!((0..counts[me]).all(|i| part[i] == sum(start + i)));
        let mut kept = mine(whole);
        comm.reduce_scatter_in_place(&mut kept, &counts, Op::Sum)?;
        assert!((0..counts[me]).all(|i| kept[i] == sum(start + i)));
        Ok(())
    });
}

/// Fills, starts, waits, looks.
fn run(one: &mut Persistent<Vec<u32>>, mine: &[u32], expected: &[u32]) -> Result<(), Error> {
    one.buffer_mut()?.copy_from_slice(mine);
    one.start()?;
    one.wait()?;
    assert_eq!(one.buffer()?, expected);
    Ok(())
}

#[test]
fn restarted() {
    everywhere(1..=4, |comm| {
        let (me, ranks, root, len) = (comm.rank(), comm.size(), comm.size() - 1, 90);
        let all = |of: &dyn Fn(u32) -> Vec<u32>| (0..ranks).flat_map(of).collect::<Vec<u32>>();
        let at = Placed::new(vec![len; ranks as usize]);
        let whole = len * ranks as usize;
        let (packed, placed) = match me == root {
            true => (whole, at.whole),
            false => (len, len),
        };
        let mut scatter = comm.scatter_in_place_init(vec![0; packed], root)?;
        let mut scatterv = comm.scatterv_in_place_init(vec![0; placed], at.blocks(), root)?;
        let mut gather = comm.gather_in_place_init(vec![0; packed], root)?;
        let mut gatherv = comm.gatherv_in_place_init(vec![0; placed], at.blocks(), root)?;
        let mut allgather = comm.allgather_in_place_init(vec![0; whole])?;
        let mut allgatherv = comm.allgatherv_in_place_init(vec![0; at.whole], at.blocks())?;
        let mut alltoall = comm.alltoall_in_place_init(vec![0; whole])?;
        let mut alltoallv = comm.alltoallv_in_place_init(vec![0; at.whole], at.blocks())?;
        let mut alltoallw = comm.alltoallw_in_place_init(vec![0; at.whole], &at.bytes())?;
        let counts = vec![len; ranks as usize];
        let mut parts = comm.reduce_scatter_in_place_init(vec![0; whole], &counts, Op::Max)?;
        let mut equal = comm.reduce_scatter_block_in_place_init(vec![0; whole], Op::Max)?;
        for time in 1..=4 {
            // Other contents each time.
            let of = |from: u32, to: u32| block(from + 10 * time, to, len);
            let is_mine = |rank: u32| (rank == me).then(|| of(me, 0));
            let mine_only = all(&|rank| is_mine(rank).unwrap_or_else(|| vec![0; len]));
            if me == root {
                let out = all(&|to| of(me, to));
                run(&mut scatter, &out, &out)?;
                let out = at.filled(|to, _| Some(of(me, to)));
                run(&mut scatterv, &out, &out)?;
                run(&mut gather, &mine_only, &all(&|from| of(from, 0)))?;
                let gathered = at.filled(|from, _| Some(of(from, 0)));
                run(&mut gatherv, &at.filled(|rank, _| is_mine(rank)), &gathered)?;
            } else {
                run(&mut scatter, &vec![0; len], &of(root, me))?;
                run(&mut scatterv, &vec![0; len], &of(root, me))?;
                run(&mut gather, &of(me, 0), &of(me, 0))?;
                run(&mut gatherv, &of(me, 0), &of(me, 0))?;
            }
            run(&mut allgather, &mine_only, &all(&|from| of(from, 0)))?;
            let gathered = at.filled(|from, _| Some(of(from, 0)));
            run(&mut allgatherv, &at.filled(|rank, _| is_mine(rank)), &gathered)?;
            run(&mut alltoall, &all(&|to| of(me, to)), &all(&|from| of(from, me)))?;
            let (out, exchanged) =
                (at.filled(|to, _| Some(of(me, to))), at.filled(|from, _| Some(of(from, me))));
            run(&mut alltoallv, &out, &exchanged)?;
            run(&mut alltoallw, &out, &exchanged)?;
            for reduced in [&mut parts, &mut equal] {
                reduced.buffer_mut()?.copy_from_slice(&all(&|to| of(me, to)));
                reduced.start()?;
                reduced.wait()?;
                assert_eq!(reduced.buffer()?[..len], of(ranks - 1, me));
            }
        }
        Ok(())
    });
}

#[test]
fn several_at_once_in_a_scope() {
    everywhere(1..=4, |comm| {
        let (me, ranks, len) = (comm.rank(), comm.size(), 50);
        let whole = len * ranks as usize;
        let (mut exchanged, mut gathered) = (vec![me; whole], vec![0; whole]);
        gathered[len * me as usize..][..len].fill(me + 5);
        let mut scattered = if me == 0 { vec![9; whole] } else { vec![0; len] };
        comm.scope(|s| {
            let exchange = s.ialltoall_in_place(&mut exchanged)?;
            let gather = s.iallgather_in_place(&mut gathered)?;
            let scatter = s.iscatter_in_place(&mut scattered, 0)?;
            gather.wait()?;
            scatter.wait()?;
            exchange.wait()?;
            Ok(())
        })?;
        assert!(exchanged.chunks(len).zip(0..).all(|(part, from)| part.iter().all(|x| *x == from)));
        assert!(gathered.chunks(len).zip(5..).all(|(part, from)| part.iter().all(|x| *x == from)));
        assert!(scattered.iter().all(|x| *x == 9));
        Ok(())
    });
}

#[test]
fn what_does_not_fit_is_refused_with_a_text() {
    let results = World::threads(3, |comm| {
        let (me, three) = (comm.rank(), [1, 1, 1]);
        let texts = [
            comm.iscatter_in_place(vec![0u8; 7], me).map(drop),
            comm.iscatter_in_place(vec![0u8; 6], 3).map(drop),
            comm.igather_in_place(vec![0u8; 7], me).map(drop),
            comm.iscatterv_in_place(vec![0u8; 2], Blocks::packed(&three), me).map(drop),
            comm.igatherv_in_place(vec![0u8; 9], Blocks::placed(&three, &[0, 4, 4]), me).map(drop),
            comm.iallgather_in_place(vec![0u8; 7]).map(drop),
            comm.iallgatherv_in_place(vec![0u8; 3], Blocks::packed(&[1, 1])).map(drop),
            comm.ialltoall_in_place(vec![0u8; 7]).map(drop),
            comm.ialltoallv_in_place(vec![0u8; 9], Blocks::placed(&three, &[0, 4, 4])).map(drop),
            comm.ialltoallw_in_place(vec![0u8; 3], &[Block::new(3, 1); 3]).map(drop),
            comm.ireduce_scatter_in_place(vec![0u8; 4], &three, Op::Sum).map(drop),
            comm.ireduce_scatter_block_in_place(vec![0u8; 4], Op::Sum).map(drop),
            comm.alltoall_in_place_init(vec![0u8; 7]).map(drop),
        ];
        // What was refused alike on all ranks leaves them in step.
        comm.barrier()?;
        Ok::<_, Error>(texts.map(|result| result.unwrap_err().to_string()))
    })
    .unwrap();
    let says = [
        "iscatter: 7 elements cannot be divided among 3 ranks",
        "iscatter: root 3 is out of range",
        "igather: 7 elements cannot be divided among 3 ranks",
        "iscatterv: block 2 of the send buffer, 1 elements from 2 on, leaves its 2 elements",
        "igatherv: two blocks of the receive buffer overlap",
        "iallgather: 7 elements cannot be divided",
        "iallgatherv: the receive buffer needs one block for each of the 3 ranks",
        "ialltoall: 7 elements cannot be divided",
        "ialltoallv: two blocks of the receive buffer overlap",
        "ialltoallw: the receive buffer needs one block for each of the 3 ranks, all within its 3 bytes",
        "ireduce_scatter: the buffer has 4 elements: give one count for each of the 3 ranks, 4 of them in all",
        "ireduce_scatter_block: 4 elements cannot be divided",
        "alltoall: 7 elements cannot be divided",
    ];
    for texts in results {
        for (text, says) in texts.unwrap().iter().zip(says) {
            assert!(text.starts_with(says), "{text:?} does not say {says:?}");
        }
    }
}
