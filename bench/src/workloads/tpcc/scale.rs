//! How many rows there are. A factor of 1 is the specification's (clause 1.2.1); a smaller one shrinks items,
//! customers and initial orders together, so that a run can be tried out, or tested, in a moment. Warehouses and
//! the ten districts of each are never shrunk.

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u8 = 10;
/// Order lines of an order, at least and at most.
pub(crate) const LINES: std::ops::RangeInclusive<u8> = 5..=15;

/// Numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Warehouses.
    pub(crate) warehouses: u32,
    /// Items, and rows of stock in each warehouse.
    pub(crate) items: u32,
    /// Customers of each district, and orders of each to begin with.
    pub(crate) customers: u32,
}

impl Scale {
    /// Items of the specification.
    const ITEMS: u32 = 100_000;
    /// Customers of a district of the specification.
    const CUSTOMERS: u32 = 3000;
    /// Fewer would leave orders without enough items, and names without customers.
    const ITEMS_MIN: u32 = 100;
    const CUSTOMERS_MIN: u32 = 30;

    /// The rows of `warehouses` at a factor, which is taken for 1 if it is greater.
    pub(crate) fn new(warehouses: u32, factor: f64) -> Scale {
        let shrunk = |full: u32, least: u32| ((f64::from(full) * factor) as u32).clamp(least, full);
        Scale {
            warehouses,
            items: shrunk(Scale::ITEMS, Scale::ITEMS_MIN),
            customers: shrunk(Scale::CUSTOMERS, Scale::CUSTOMERS_MIN),
        }
    }

    /// The rows are those of the specification.
    pub(crate) fn is_full(&self) -> bool {
        *self == Scale::new(self.warehouses, 1.0)
    }

    /// Last names that are used: three customers of a district have one, on average.
    pub(crate) fn last_names(&self) -> u32 {
        self.customers / 3
    }

    /// The first order of a district that is not delivered to begin with: the last three in ten are not.
    pub(crate) fn first_undelivered(&self) -> u32 {
        self.customers - self.customers * 3 / 10 + 1
    }

    /// About how many bytes the loaded database takes.
    pub(crate) fn bytes(&self) -> u64 {
        // Rows with their keys, slots and the room that pages leave: items and stock; a customer with its index
        // entries, its order of ten lines and its history.
        let of_items = u64::from(self.items) * (110 + 350 * u64::from(self.warehouses));
        let districts = u64::from(self.warehouses) * u64::from(DISTRICTS);
        of_items + districts * u64::from(self.customers) * 1800
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_one_has_the_rows_of_the_specification() {
        let scale = Scale::new(4, 1.0);
        assert_eq!((scale.items, scale.customers), (100_000, 3000));
        assert_eq!((scale.last_names(), scale.first_undelivered()), (1000, 2101));
        assert!(scale.is_full());
        assert_eq!(Scale::new(4, 2.0), scale);
    }

    #[test]
    fn the_smallest_scale_has_names_and_open_orders() {
        let scale = Scale::new(1, 0.0);
        assert!(!scale.is_full());
        assert_eq!((scale.items, scale.last_names(), scale.first_undelivered()), (100, 10, 22));
    }
}
