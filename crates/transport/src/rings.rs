//! How a rank has rung others.

/// Counts since the start. A ring that its receiver needs no interrupt for is not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rings {
    /// Through a connection for user interrupts. (One to a rank that has not answered an earlier one for a millisecond is a
    /// signal, too.)
    pub by_user_interrupt: u64,
    /// By signal alone.
    pub by_signal: u64,
    /// Ranks that are to be reached by user interrupt and refused the connection: they are rung by signal for good.
    pub refused: u64,
}
