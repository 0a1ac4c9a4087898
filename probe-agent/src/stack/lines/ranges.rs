//! The addresses that an entry covers.

use super::{Bytes, patience::Patience};
use gimli::{AttributeValue, UnitRef};

/// The attributes that say it, as they are met.
#[derive(Default)]
pub struct Covered {
    low: Option<u64>,
    high: Option<u64>,
    length: Option<u64>,
    list: Option<gimli::RangeListsOffset<usize>>,
}

impl Covered {
    /// Takes in an attribute, if it is one of those.
    pub fn take<'s>(
        &mut self,
        unit: UnitRef<Bytes<'s>>,
        name: gimli::DwAt,
        value: AttributeValue<Bytes<'s>>,
    ) {
        match name {
            gimli::DW_AT_low_pc => self.low = unit.attr_address(value).ok().flatten(),
            gimli::DW_AT_high_pc => match value.udata_value() {
                Some(length) => self.length = Some(length),
                None => self.high = unit.attr_address(value).ok().flatten(),
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(value).ok().flatten(),
            _ => {}
        }
    }

    /// Calls for each of its ranges that is not empty.
    pub fn each(
        &self,
        unit: UnitRef<Bytes>,
        patience: &mut Patience,
        mut with: impl FnMut(u64, u64),
    ) {
        if let Some(list) = self.list {
            let Ok(mut list) = unit.ranges(list) else { return };
            while patience.step()
                && let Ok(Some(range)) = list.next()
            {
                if range.begin < range.end {
                    with(range.begin, range.end);
                }
            }
        } else if let Some(low) = self.low {
            let end = self.high.or(self.length.map(|length| low.saturating_add(length)));
            if let Some(end) = end.filter(|end| low < *end) {
                with(low, end);
            }
        }
    }
}
