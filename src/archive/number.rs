//! The types of numbers that are coded, and a value of any of them as 64 bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::{ArchiveError, Result};

/// A type of numbers. Values are held as 64 bits: those of a double or of a single-precision number, or
/// an integer in two's complement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    F32,
    F64,
    Signed,
    Unsigned,
}

impl Number {
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Float64 => Self::F64,
            DataType::Float32 => Self::F32,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Signed,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Self::Unsigned,
            _ => return None,
        })
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    #[inline(always)]
    pub fn to_f64(self, raw: u64) -> f64 {
        match self {
            Self::F64 => f64::from_bits(raw),
            Self::F32 => f64::from(f32::from_bits(raw as u32)),
            Self::Signed => raw as i64 as f64,
            Self::Unsigned => raw as f64,
        }
    }

    /// How far apart two values are, rounded once.
    #[inline(always)]
    pub fn difference(self, one: u64, other: u64) -> f64 {
        match self {
            Self::F32 | Self::F64 => (self.to_f64(one) - self.to_f64(other)).abs(),
            Self::Signed => (one as i64).abs_diff(other as i64) as f64,
            Self::Unsigned => one.abs_diff(other) as f64,
        }
    }

    /// The nearest value of this type; integers are rounded and end at the limits of 64 bits.
    #[inline(always)]
    pub fn nearest(self, value: f64) -> u64 {
        match self {
            Self::F64 => value.to_bits(),
            Self::F32 => u64::from((value as f32).to_bits()),
            Self::Signed => value.round() as i64 as u64,
            Self::Unsigned => value.round() as u64,
        }
    }

    /// NaN, an infinity or a negative zero: values that come back as they were, whatever the bound.
    #[inline(always)]
    pub fn is_special(self, raw: u64) -> bool {
        let value = self.to_f64(raw);
        self.is_float() && (!value.is_finite() || (value == 0.0 && value.is_sign_negative()))
    }

    pub fn show(self, raw: u64) -> String {
        match self {
            Self::F64 | Self::F32 => self.to_f64(raw).to_string(),
            Self::Signed => (raw as i64).to_string(),
            Self::Unsigned => raw.to_string(),
        }
    }
}

/// Calls a function with a number's type as a constant, so that its loops are made for that type.
macro_rules! by_number {
    ($number:expr, $function:ident($($argument:expr),*)) => {
        match $number {
            Number::F64 => $function(Number::F64, $($argument),*),
            Number::F32 => $function(Number::F32, $($argument),*),
            Number::Signed => $function(Number::Signed, $($argument),*),
            Number::Unsigned => $function(Number::Unsigned, $($argument),*),
        }
    };
}
pub(super) use by_number;

/// Calls `$run::<T>` for the Arrow type `T` of a number, or gives `$otherwise`.
macro_rules! for_number_type {
    ($data_type:expr, $run:ident($($argument:expr),*), $otherwise:expr) => {
        match $data_type {
            DataType::Float64 => $run::<Float64Type>($($argument),*),
            DataType::Float32 => $run::<Float32Type>($($argument),*),
            DataType::Int8 => $run::<Int8Type>($($argument),*),
            DataType::Int16 => $run::<Int16Type>($($argument),*),
            DataType::Int32 => $run::<Int32Type>($($argument),*),
            DataType::Int64 => $run::<Int64Type>($($argument),*),
            DataType::UInt8 => $run::<UInt8Type>($($argument),*),
            DataType::UInt16 => $run::<UInt16Type>($($argument),*),
            DataType::UInt32 => $run::<UInt32Type>($($argument),*),
            DataType::UInt64 => $run::<UInt64Type>($($argument),*),
            _ => $otherwise,
        }
    };
}

/// A native number as 64 bits and back.
trait Raw: Copy {
    fn to_raw(self) -> u64;
    /// `None` for bits that no number of this type has.
    fn from_raw(raw: u64) -> Option<Self>;
}

impl Raw for f64 {
    fn to_raw(self) -> u64 {
        self.to_bits()
    }
    fn from_raw(raw: u64) -> Option<Self> {
        Some(Self::from_bits(raw))
    }
}

impl Raw for f32 {
    fn to_raw(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn from_raw(raw: u64) -> Option<Self> {
        u32::try_from(raw).ok().map(Self::from_bits)
    }
}

macro_rules! raw_integers {
    ($($integer:ty as $wide:ty),*) => {$(
        impl Raw for $integer {
            fn to_raw(self) -> u64 {
                <$wide>::from(self) as u64
            }
            fn from_raw(raw: u64) -> Option<Self> {
                Self::try_from(raw as $wide).ok()
            }
        }
    )*};
}

raw_integers!(i8 as i64, i16 as i64, i32 as i64, i64 as i64, u8 as u64, u16 as u64, u32 as u64, u64 as u64);

/// Calls `each` with the position and the 64 bits of every value, `None` for NULL.
pub(crate) fn read_values(array: &dyn Array, each: impl FnMut(usize, Option<u64>)) -> Result<()> {
    for_number_type!(array.data_type(), read_typed(array, each), Err(not_a_number(array.data_type())))
}

fn read_typed<T: ArrowPrimitiveType>(
    array: &dyn Array,
    mut each: impl FnMut(usize, Option<u64>),
) -> Result<()>
where
    T::Native: Raw,
{
    let array = array.as_primitive::<T>();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.values().iter().enumerate().for_each(|(i, value)| each(i, Some(value.to_raw()))),
        Some(nulls) => {
            for (i, value) in array.values().iter().enumerate() {
                each(i, nulls.is_valid(i).then(|| value.to_raw()));
            }
        }
    }
    Ok(())
}

/// The 64 bits of all values of an array without NULLs: the array's own memory where it holds just these.
pub(crate) fn all_values(array: &dyn Array) -> Result<ScalarBuffer<u64>> {
    fn typed<T: ArrowPrimitiveType>(array: &dyn Array) -> Result<ScalarBuffer<u64>>
    where
        T::Native: Raw,
    {
        Ok(array.as_primitive::<T>().values().iter().map(|value| value.to_raw()).collect())
    }
    match array.as_primitive_opt::<Float64Type>() {
        Some(doubles) => Ok(ScalarBuffer::new(doubles.values().inner().clone(), 0, doubles.len())),
        None => for_number_type!(array.data_type(), typed(array), Err(not_a_number(array.data_type()))),
    }
}

/// An array of numbers from their 64 bits; `valid` says which are not NULL.
pub(crate) fn to_array(
    data_type: &DataType,
    raw: impl Iterator<Item = u64>,
    valid: Option<NullBuffer>,
) -> Result<ArrayRef> {
    for_number_type!(data_type, write_typed(raw, valid), Err(not_a_number(data_type)))
}

fn write_typed<T: ArrowPrimitiveType>(
    raw: impl Iterator<Item = u64>,
    valid: Option<NullBuffer>,
) -> Result<ArrayRef>
where
    T::Native: Raw + Default,
{
    let native = |(i, raw)| match valid.as_ref().is_some_and(|valid| valid.is_null(i)) {
        true => Some(T::Native::default()),
        false => T::Native::from_raw(raw),
    };
    let values: Option<Vec<T::Native>> = raw.enumerate().map(native).collect();
    let values = values.ok_or_else(|| ArchiveError::corrupt("a value is beyond its column's type"))?;
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values.into(), valid)?))
}

/// Whether 64 bits are a value of this Arrow type.
pub(crate) fn fits(data_type: &DataType, raw: u64) -> bool {
    fn typed<T: ArrowPrimitiveType>(raw: u64) -> bool
    where
        T::Native: Raw,
    {
        T::Native::from_raw(raw).is_some()
    }
    for_number_type!(data_type, typed(raw), false)
}

fn not_a_number(data_type: &DataType) -> ArchiveError {
    ArchiveError::layout(format!("expected integers or floats, found {data_type}"))
}
