use crate::{Choices, Error, Hierarchy};
use std::sync::Arc;

/// Members of a communicator: rank in the communicator to rank in the world.
#[derive(Clone, Debug)]
pub struct Group {
    ranks: Members,
    me: u32,
    board: Option<u32>,
    /// Its board has long memory.
    long: bool,
    choices: Option<Arc<Choices>>,
    shares_cores: bool,
    far_cache: bool,
    single_copies: bool,
    one_process: bool,
    dedicated_cores: u32,
    hierarchy: Option<Arc<Hierarchy>>,
}

#[derive(Clone, Debug)]
enum Members {
    /// The first ranks of the world, each with its own number: no memory of a rank's own.
    First(&'static [u32]),
    Listed(Arc<[u32]>),
}

/// Each number at its own place.
static NUMBERS: [u32; 1024] = {
    let mut numbers = [0; 1024];
    let mut at = 0;
    while at < numbers.len() {
        numbers[at] = at as u32;
        at += 1;
    }
    numbers
};

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.me == other.me && self.world_ranks() == other.world_ranks()
    }
}

impl Eq for Group {}

impl Group {
    /// A group in which this process has rank `me`.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] if `me` is not below the number of ranks.
    pub fn new(ranks: &[u32], me: u32) -> Result<Group, Error> {
        let members = match NUMBERS.get(..ranks.len()).filter(|first| *first == ranks) {
            Some(first) => Members::First(first),
            None => Members::Listed(ranks.into()),
        };
        Group::of(members, me).checked()
    }

    /// [`new`](Self::new), of a list that is kept, not copied.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shared(ranks: Arc<[u32]>, me: u32) -> Result<Group, Error> {
        Group::of(Members::Listed(ranks), me).checked()
    }

    fn of(ranks: Members, me: u32) -> Group {
        let (board, choices, hierarchy) = (None, None, None);
        let (long, shares_cores, far_cache, single_copies) = (false, false, false, false);
        let (one_process, dedicated_cores) = (false, 0);
        Group {
            ranks,
            me,
            board,
            long,
            choices,
            shares_cores,
            far_cache,
            single_copies,
            one_process,
            dedicated_cores,
            hierarchy,
        }
    }

    fn checked(self) -> Result<Group, Error> {
        let size = u32::try_from(self.world_ranks().len()).unwrap_or(u32::MAX);
        if self.me < size { Ok(self) } else { Err(Error::NoSuchRank { what: "rank", rank: self.me, size }) }
    }

    /// The same group with a board, by the number that [`Nbc::open_board`](crate::Nbc::open_board) gave. Either all members
    /// have one, and it is the same, or none has: their algorithms differ.
    #[must_use]
    pub fn with_board(self, board: u32) -> Group {
        Group { board: Some(board), long: true, ..self }
    }

    /// The same group, whose board has no [long memory](tocsin_transport::board::Board::has_long): what does not fit into its slots goes by messages. The
    /// same of all members.
    #[must_use]
    pub fn without_long_parts(self) -> Group {
        Group { long: false, ..self }
    }

    /// Whether its board has long memory.
    #[inline]
    pub fn has_long_parts(&self) -> bool {
        self.long
    }

    /// The number of its board.
    #[inline]
    pub fn board(&self) -> Option<u32> {
        self.board
    }

    /// The same group with algorithms that were measured for its size. All members have the same: their algorithms differ
    /// else.
    #[must_use]
    pub fn with_choices(self, choices: Option<Arc<Choices>>) -> Group {
        Group { choices, ..self }
    }

    /// Algorithms that were measured.
    #[inline]
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_deref()
    }

    /// The same group, whose ranks have fewer cores than they are, or not. All members say the same: their algorithms differ else.
    #[must_use]
    pub fn with_shared_cores(self, shares_cores: bool) -> Group {
        Group { shares_cores, ..self }
    }

    /// Whether ranks have to take turns on cores.
    #[inline]
    pub fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    /// The same group, on a machine on which [what does not fit into a core's own caches](tocsin_transport::copy::has_far_cache) is far from it, or not.
    /// All members say the same: their algorithms differ else.
    #[must_use]
    pub fn with_far_cache(self, far_cache: bool) -> Group {
        Group { far_cache, ..self }
    }

    /// Whether what does not fit into a core's own caches is far from it.
    #[inline]
    pub fn has_far_cache(&self) -> bool {
        self.far_cache
    }

    /// The same group, from rank to rank of which the kernel may copy long messages, or not, where that is all that copies them once. All members say the same:
    /// their algorithms differ else.
    #[must_use]
    pub fn with_single_copies(self, single_copies: bool) -> Group {
        Group { single_copies, ..self }
    }

    /// Whether the kernel may copy long messages from rank to rank.
    #[inline]
    pub fn has_single_copies(&self) -> bool {
        self.single_copies
    }

    /// The same group, whose ranks are threads of one process, or not: large messages of such ranks are copied once, by their receivers. All members
    /// say the same: their algorithms differ else.
    #[must_use]
    pub fn with_one_process(self, one_process: bool) -> Group {
        Group { one_process, ..self }
    }

    /// Whether its ranks are threads of one process.
    #[inline]
    pub fn is_one_process(&self) -> bool {
        self.one_process
    }

    /// The same group, beside whose ranks so many cores do nothing but communicate: progress threads have them to themselves.
    #[must_use]
    pub fn with_dedicated_cores(self, dedicated_cores: u32) -> Group {
        Group { dedicated_cores, ..self }
    }

    /// How many cores do nothing but communicate.
    #[inline]
    pub fn dedicated_cores(&self) -> u32 {
        self.dedicated_cores
    }

    /// The same group, whose members are in these parts of the machine; `None`: nothing is known of that, or all are in one. What is said of
    /// another number of ranks is left out. All members say the same: the trees that follow it differ else.
    #[must_use]
    pub fn with_hierarchy(self, hierarchy: Option<Arc<Hierarchy>>) -> Group {
        let hierarchy = hierarchy.filter(|hierarchy| hierarchy.ranks() == self.size());
        Group { hierarchy, ..self }
    }

    /// In which parts of the machine its members are.
    #[inline]
    pub fn hierarchy(&self) -> Option<&Hierarchy> {
        self.hierarchy.as_deref()
    }

    /// Whether it has the same members, and this process the same rank: at once where it is the same list.
    pub(crate) fn is_same(&self, other: &Group) -> bool {
        self.me == other.me && (std::ptr::eq(self.world_ranks(), other.world_ranks()) || self == other)
    }

    /// Its members alone.
    pub(crate) fn members(&self) -> Group {
        Group::of(self.ranks.clone(), self.me)
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.me
    }

    /// Number of ranks; at least 1.
    #[inline]
    pub fn size(&self) -> u32 {
        self.world_ranks().len() as u32
    }

    /// World rank of a member.
    #[inline]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        self.world_ranks().get(rank as usize).copied()
    }

    /// World ranks of all members.
    #[inline]
    pub fn world_ranks(&self) -> &[u32] {
        match &self.ranks {
            Members::First(ranks) => ranks,
            Members::Listed(ranks) => ranks,
        }
    }

    /// Whether a world rank is a member. Handler-safe; bounded by the size of the group.
    pub fn contains(&self, world_rank: u32) -> bool {
        self.world_ranks().contains(&world_rank)
    }
}
