//! What messages are made of.

use tocsin_world::DataType;

mod sealed {
    pub trait Sealed {}
}

/// A type that buffers may hold: integers, floats, `f16` and `bf16` with the feature `half`, and value-index pairs
/// for `minloc` and `maxloc`.
///
/// Sealed: every type of it is plain bytes without padding, and knows its reductions.
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The element type by which reductions know it.
    const DATA_TYPE: DataType;
}

macro_rules! elements {
    ($($type:ty => $data_type:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DATA_TYPE: DataType = DataType::$data_type;
            }
        )*
    };
}

elements! {
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64,
    tocsin_world::ValueIndex32<i32> => I32Index, tocsin_world::ValueIndex32<f32> => F32Index,
    tocsin_world::ValueIndex64<i64> => I64Index, tocsin_world::ValueIndex64<f64> => F64Index,
}

#[cfg(feature = "half")]
elements! { half::f16 => F16, half::bf16 => Bf16 }
