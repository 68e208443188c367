//! Element types of reductions, which C names by integers.

use std::ffi::c_int;

use tocsin_world::DataType;

use crate::border::Failure;
use crate::status::TOCSIN_ERROR_OPERATOR;

/// int8_t
pub const TOCSIN_INT8: c_int = 1;
/// int16_t
pub const TOCSIN_INT16: c_int = 2;
/// int32_t
pub const TOCSIN_INT32: c_int = 3;
/// int64_t
pub const TOCSIN_INT64: c_int = 4;
/// uint8_t
pub const TOCSIN_UINT8: c_int = 5;
/// uint16_t
pub const TOCSIN_UINT16: c_int = 6;
/// uint32_t
pub const TOCSIN_UINT32: c_int = 7;
/// uint64_t
pub const TOCSIN_UINT64: c_int = 8;
/// float
pub const TOCSIN_FLOAT: c_int = 9;
/// double
pub const TOCSIN_DOUBLE: c_int = 10;
/// Bytes, for the bitwise operators.
pub const TOCSIN_BYTE: c_int = 11;
/// struct { int32_t value; int32_t index; }, for TOCSIN_MINLOC and TOCSIN_MAXLOC.
pub const TOCSIN_INT32_INDEX: c_int = 12;
/// struct { float value; int32_t index; }
pub const TOCSIN_FLOAT_INDEX: c_int = 13;
/// struct { int64_t value; int32_t index; uint32_t unused; }
pub const TOCSIN_INT64_INDEX: c_int = 14;
/// struct { double value; int32_t index; uint32_t unused; }
pub const TOCSIN_DOUBLE_INDEX: c_int = 15;
/// IEEE binary16, as _Float16: two bytes. A sum or product of two is computed as float and rounded. Libraries that were built without
/// the feature `half` of the crate tocsin-ffi, which is there by default, refuse it (OPERATOR).
pub const TOCSIN_FLOAT16: c_int = 16;
/// The upper half of a float, as __bf16: two bytes. Otherwise as TOCSIN_FLOAT16.
pub const TOCSIN_BFLOAT16: c_int = 17;

/// Marks the types that tocsin_type_opaque makes; the lower bits are their size.
const OPAQUE: c_int = 1 << 24;
/// Largest element that only a user's operator understands.
const OPAQUE_MAX: usize = 1 << 20;

/// The element type of so many bytes (1 to 1048576) that only a user's operator understands; 0, which is no type, for
/// other sizes.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_type_opaque(bytes: usize) -> c_int {
    match c_int::try_from(bytes) {
        Ok(size) if (1..=OPAQUE_MAX).contains(&bytes) => OPAQUE | size,
        _ => 0,
    }
}

pub(crate) fn data_type(value: c_int) -> Result<DataType, Failure> {
    Ok(match value {
        TOCSIN_INT8 => DataType::I8,
        TOCSIN_INT16 => DataType::I16,
        TOCSIN_INT32 => DataType::I32,
        TOCSIN_INT64 => DataType::I64,
        TOCSIN_UINT8 => DataType::U8,
        TOCSIN_UINT16 => DataType::U16,
        TOCSIN_UINT32 => DataType::U32,
        TOCSIN_UINT64 => DataType::U64,
        TOCSIN_FLOAT => DataType::F32,
        TOCSIN_DOUBLE => DataType::F64,
        TOCSIN_BYTE => DataType::Byte,
        TOCSIN_INT32_INDEX => DataType::I32Index,
        TOCSIN_FLOAT_INDEX => DataType::F32Index,
        TOCSIN_INT64_INDEX => DataType::I64Index,
        TOCSIN_DOUBLE_INDEX => DataType::F64Index,
        #[cfg(feature = "half")]
        TOCSIN_FLOAT16 => DataType::F16,
        #[cfg(feature = "half")]
        TOCSIN_BFLOAT16 => DataType::Bf16,
        #[cfg(not(feature = "half"))]
        TOCSIN_FLOAT16 | TOCSIN_BFLOAT16 => {
            let text = "this library has no floats of 16 bits: build it with the feature `half` of the crate tocsin-ffi, which is there by default";
            return Err(Failure::new(TOCSIN_ERROR_OPERATOR, text));
        }
        _ => match u32::try_from(value - (value & OPAQUE)) {
            Ok(bytes @ 1..) if value & OPAQUE != 0 && bytes as usize <= OPAQUE_MAX => DataType::Opaque(bytes),
            _ => {
                let text = format!("{value} is no element type: use TOCSIN_INT8 ... or tocsin_type_opaque");
                return Err(Failure::new(TOCSIN_ERROR_OPERATOR, text));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../include/tocsin.h");

    /// The number that the header gives a name.
    fn in_header(name: &str) -> Option<c_int> {
        let value =
            |line: &str| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        HEADER.lines().find_map(value)
    }

    /// `i8` is INT8, `f32-index` is FLOAT_INDEX.
    fn c_name(data_type: DataType) -> String {
        let (number, index) = match data_type.name().strip_suffix("-index") {
            Some(number) => (number, "_INDEX"),
            None => (data_type.name(), ""),
        };
        let number = match number {
            "f16" => "FLOAT16".to_owned(),
            "bf16" => "BFLOAT16".to_owned(),
            "f32" => "FLOAT".to_owned(),
            "f64" => "DOUBLE".to_owned(),
            "byte" => "BYTE".to_owned(),
            integer => integer.replace('i', "INT").replace('u', "UINT"),
        };
        format!("TOCSIN_{number}{index}")
    }

    #[test]
    fn every_built_in_type_is_in_the_header() {
        for &built_in in DataType::BUILT_IN {
            let name = c_name(built_in);
            let value = in_header(&name).unwrap_or_else(|| panic!("{built_in}: the header has no {name}"));
            assert_eq!(data_type(value).ok(), Some(built_in), "{name}");
        }
        let numbers = (-1..1 << 16).filter(|&value| data_type(value).is_ok()).count();
        assert_eq!(numbers, DataType::BUILT_IN.len());
    }

    #[test]
    fn a_library_without_floats_of_16_bits_says_how_to_have_them() {
        for name in ["TOCSIN_FLOAT16", "TOCSIN_BFLOAT16"] {
            let made = data_type(in_header(name).unwrap());
            if cfg!(feature = "half") {
                assert_eq!(made.map_err(|failure| failure.text).unwrap().size(), 2, "{name}");
            } else {
                let failure = made.err().unwrap();
                assert_eq!(failure.code, TOCSIN_ERROR_OPERATOR);
                assert!(failure.text.contains("build it with the feature `half`"), "{}", failure.text);
            }
        }
    }
}
