use std::fmt;

/// Type of the elements of a reduction. Buffers may be unaligned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DataType {
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// IEEE half precision; sums and products are computed in `f32` and rounded at each combination.
    #[cfg(feature = "half")]
    F16,
    /// The upper half of an `f32`; computed as [`F16`](Self::F16) is.
    #[cfg(feature = "half")]
    Bf16,
    /// Bits without a number: bitwise operators only.
    Byte,
    /// [`ValueIndex32<i32>`](ValueIndex32), laid out as MPI's `MPI_2INT`.
    I32Index,
    /// [`ValueIndex32<f32>`](ValueIndex32), laid out as MPI's `MPI_FLOAT_INT`.
    F32Index,
    /// [`ValueIndex64<i64>`](ValueIndex64), laid out as MPI's `MPI_LONG_INT` where `long` has 64 bits.
    I64Index,
    /// [`ValueIndex64<f64>`](ValueIndex64), laid out as MPI's `MPI_DOUBLE_INT`.
    F64Index,
    /// An element of so many bytes that only user operators understand.
    Opaque(u32),
}

/// A 4-byte value with its place, for `minloc` and `maxloc`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[repr(C)]
pub struct ValueIndex32<V> {
    /// The value that is compared.
    pub value: V,
    /// Where it stands.
    pub index: i32,
}

/// An 8-byte value with its place, for `minloc` and `maxloc`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[repr(C)]
pub struct ValueIndex64<V> {
    /// The value that is compared.
    pub value: V,
    /// Where it stands.
    pub index: i32,
    /// Unused; there so that the type has no hidden padding.
    pub padding: u32,
}

// SAFETY: - repr(C) of two 4-byte fields without padding, any bit pattern is valid, as far as V is Pod itself.
unsafe impl bytemuck::Zeroable for ValueIndex32<i32> {}
// SAFETY: - as above.
unsafe impl bytemuck::Pod for ValueIndex32<i32> {}
// SAFETY: - as above.
unsafe impl bytemuck::Zeroable for ValueIndex32<f32> {}
// SAFETY: - as above.
unsafe impl bytemuck::Pod for ValueIndex32<f32> {}
// SAFETY: - repr(C) of 8 + 4 + 4 bytes without hidden padding, any bit pattern is valid.
unsafe impl bytemuck::Zeroable for ValueIndex64<i64> {}
// SAFETY: - as above.
unsafe impl bytemuck::Pod for ValueIndex64<i64> {}
// SAFETY: - as above.
unsafe impl bytemuck::Zeroable for ValueIndex64<f64> {}
// SAFETY: - as above.
unsafe impl bytemuck::Pod for ValueIndex64<f64> {}

impl DataType {
    /// Every built-in type.
    pub const BUILT_IN: &'static [DataType] = &[
        DataType::I8,
        DataType::I16,
        DataType::I32,
        DataType::I64,
        DataType::U8,
        DataType::U16,
        DataType::U32,
        DataType::U64,
        DataType::F32,
        DataType::F64,
        #[cfg(feature = "half")]
        DataType::F16,
        #[cfg(feature = "half")]
        DataType::Bf16,
        DataType::Byte,
        DataType::I32Index,
        DataType::F32Index,
        DataType::I64Index,
        DataType::F64Index,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DataType::I8 | DataType::U8 | DataType::Byte => 1,
            DataType::I16 | DataType::U16 => 2,
            #[cfg(feature = "half")]
            DataType::F16 | DataType::Bf16 => 2,
            DataType::I32 | DataType::U32 | DataType::F32 => 4,
            DataType::I64 | DataType::U64 | DataType::F64 => 8,
            DataType::I32Index | DataType::F32Index => 8,
            DataType::I64Index | DataType::F64Index => 16,
            DataType::Opaque(bytes) => bytes as usize,
        }
    }

    /// The name used in messages and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::I8 => "i8",
            DataType::I16 => "i16",
            DataType::I32 => "i32",
            DataType::I64 => "i64",
            DataType::U8 => "u8",
            DataType::U16 => "u16",
            DataType::U32 => "u32",
            DataType::U64 => "u64",
            DataType::F32 => "f32",
            DataType::F64 => "f64",
            #[cfg(feature = "half")]
            DataType::F16 => "f16",
            #[cfg(feature = "half")]
            DataType::Bf16 => "bf16",
            DataType::Byte => "byte",
            DataType::I32Index => "i32-index",
            DataType::F32Index => "f32-index",
            DataType::I64Index => "i64-index",
            DataType::F64Index => "f64-index",
            DataType::Opaque(_) => "opaque",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Opaque(bytes) => write!(f, "opaque({bytes} bytes)"),
            other => f.write_str(other.name()),
        }
    }
}
