//! A rank's table of collectives, once it is certain that all ranks of the world would choose alike.

use std::sync::Arc;

use tocsin_nbc::Choices;
use tocsin_shm_transport::Segment;
use tocsin_topology::Relation;

use super::{Ranks, Table, collective};
use crate::config::Config;
use crate::error::Error;

/// What a rank takes from its table, if it has one.
#[derive(Debug)]
pub(crate) struct Agreed(Option<(Table, Ranks)>);

impl Agreed {
    /// Says what the table of this rank of a world says of collectives. User threads only.
    ///
    /// # Errors
    /// [`Error::OtherTable`]: not what the first rank said.
    pub(crate) fn new(config: &Config, kind: Ranks, segment: &Segment, rank: u32) -> Result<Agreed, Error> {
        let tuning = config.tune.as_ref();
        let digest = tuning.map_or(collective::EMPTY, |tuning| tuning.table.digest(kind));
        if segment.agree(digest) {
            return Ok(Agreed(tuning.map(|tuning| (tuning.table.clone(), kind))));
        }
        let table = tuning.map_or_else(|| "none".into(), |tuning| tuning.file.display().to_string());
        Err(Error::OtherTable { rank, table })
    }

    /// What a communicator of `size` ranks takes, of which the farthest two have that between them. Allocates.
    pub(crate) fn choices(
        &self,
        size: usize,
        relation: impl FnOnce() -> Option<Relation>,
    ) -> Option<Arc<Choices>> {
        let (table, kind) = self.0.as_ref()?;
        let size = u32::try_from(size).ok()?;
        let relation = table.knows_relations().then(relation).flatten();
        table.choices(*kind, size, relation).map(Arc::new)
    }
}
