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
impl ConstBuf {
    pub fn contiguous(base: *const u8, bytes: usize) -> ConstBuf {
        ConstBuf { base, layout: Layout::Contiguous { bytes } }
    }
}
impl MutBuf {
    pub fn contiguous(base: *mut u8, bytes: usize) -> MutBuf {
        MutBuf { base, layout: Layout::Contiguous { bytes } }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Synchronous,
}
