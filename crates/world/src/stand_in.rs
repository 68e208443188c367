//! Types that the lower crates will provide.
#![allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    Contiguous { bytes: usize },
    Strided { block: usize, stride: isize, count: usize },
}
#[derive(Clone, Copy, Debug)]
pub struct ConstBuf {
    pub base: *const u8,
    pub layout: Layout,
}
#[derive(Clone, Copy, Debug)]
pub struct MutBuf {
    pub base: *mut u8,
    pub layout: Layout,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Synchronous,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Byte,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    Uintr,
    Signal,
    Thread,
    Poll,
}
#[derive(Clone, Debug)]
pub enum Op {
    Sum,
    Prod,
    Min,
    Max,
    MinLoc,
    MaxLoc,
    LAnd,
    LOr,
    LXor,
    BAnd,
    BOr,
    BXor,
}
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub interrupts: u64,
    pub stolen_ns: u64,
    pub passes: u64,
    pub deferrals: u64,
    pub throttles: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub bytes_copied_user: u64,
    pub bytes_copied_handler: u64,
    pub bytes_copied_progress: u64,
}
#[derive(Debug, Default)]
pub struct Masked {
    _not_send: std::marker::PhantomData<*const ()>,
}
impl Masked {
    pub fn new() -> Masked {
        Masked::default()
    }
}
