//! A map whose copy is free, and whose change copies a short path instead of everything.

use std::sync::Arc;

use domain::id::{KeyId, PlanId, TeamId, TenantId};

use crate::api_key::KeyHash;

/// Two levels of 256 are 65,536 leaves: with a million entries a leaf has 15, so that a change copies 256 + 256 + 15
/// pointers, some microseconds, and a look-up follows three.
const FAN_OUT: usize = 256;

/// A key of a map: equal keys have equal places, and many keys have places all over.
pub(crate) trait Place: Copy + Eq {
    /// Which branch, and which leaf of it.
    fn place(&self) -> (usize, usize);
}

impl Place for KeyHash {
    fn place(&self) -> (usize, usize) {
        (usize::from(self.0[0]), usize::from(self.0[1]))
    }
}

macro_rules! place_by_id {
    ($($id:ty),*) => {$(
        impl Place for $id {
            /// By the two lowest bytes: ids follow each other, so neighbours share a branch and no leaf.
            fn place(&self) -> (usize, usize) {
                let bytes = self.0.to_le_bytes();
                (usize::from(bytes[1]), usize::from(bytes[0]))
            }
        }
    )*};
}
place_by_id!(KeyId, PlanId, TeamId, TenantId);

type Leaf<K, V> = Arc<[(K, Arc<V>)]>;
type Branch<K, V> = Arc<[Option<Leaf<K, V>>]>;

/// A map from `K` to `Arc<V>`. Clones share everything until one of them changes.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    branches: Arc<[Option<Branch<K, V>>]>,
    len: usize,
}

impl<K, V> Clone for Shards<K, V> {
    fn clone(&self) -> Self {
        Self { branches: Arc::clone(&self.branches), len: self.len }
    }
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self { branches: (0..FAN_OUT).map(|_| None).collect(), len: 0 }
    }
}

impl<K: Place, V> Shards<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: &K) -> Option<&Arc<V>> {
        let (branch, leaf) = key.place();
        let entries = self.branches[branch].as_ref()?[leaf].as_ref()?;
        entries.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        let leaves = self.branches.iter().flatten().flat_map(|branch| branch.iter().flatten());
        leaves.flat_map(|leaf| leaf.iter().map(|(_, value)| value))
    }

    /// Puts an entry in, in place of the one of the same key.
    pub(crate) fn insert(&mut self, key: K, value: Arc<V>) {
        self.change(&key, Some(value));
    }

    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, key: &K) {
        if self.get(key).is_some() {
            self.change(key, None);
        }
    }

    fn change(&mut self, key: &K, value: Option<Arc<V>>) {
        let (branch, leaf) = key.place();
        // `make_mut` copies a level only where another clone of the map still needs it.
        let branch = Arc::make_mut(&mut self.branches)[branch]
            .get_or_insert_with(|| (0..FAN_OUT).map(|_| None).collect());
        let leaf = &mut Arc::make_mut(branch)[leaf];
        let old = leaf.as_deref().unwrap_or_default();
        let new: Leaf<K, V> = old
            .iter()
            .filter(|(k, _)| k != key)
            .map(|(k, v)| (*k, Arc::clone(v)))
            .chain(value.map(|value| (*key, value)))
            .collect();
        self.len = self.len - old.len() + new.len();
        *leaf = (!new.is_empty()).then_some(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator of pseudo-random numbers: the walk is the same each time.
    fn next(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn it_does_what_an_ordinary_map_does() {
        let mut seed = 7;
        let mut map = Shards::<KeyId, u64>::default();
        let mut ordinary = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            // Far fewer ids than steps, and leaves with several entries: ids 65,536 apart share one.
            let id = i64::try_from(next(&mut seed) % 40 * 65_536 + next(&mut seed) % 20).unwrap();
            if next(&mut seed).is_multiple_of(3) {
                map.remove(&KeyId(id));
                ordinary.remove(&id);
            } else {
                let value = next(&mut seed);
                map.insert(KeyId(id), Arc::new(value));
                ordinary.insert(id, value);
            }
            assert_eq!(map.len(), ordinary.len());
            assert_eq!(map.get(&KeyId(id)).map(|v| **v), ordinary.get(&id).copied());
        }
        let mut values: Vec<u64> = map.values().map(|v| **v).collect();
        let mut expected: Vec<u64> = ordinary.into_values().collect();
        values.sort_unstable();
        expected.sort_unstable();
        assert_eq!(values, expected);
    }

    #[test]
    fn a_copy_keeps_what_it_had_and_shares_what_did_not_change() {
        let mut map = Shards::<KeyId, &str>::default();
        map.insert(KeyId(1), Arc::new("old"));
        map.insert(KeyId(300), Arc::new("other branch"));
        let copy = map.clone();
        map.insert(KeyId(1), Arc::new("new"));
        map.remove(&KeyId(2));
        assert_eq!((**copy.get(&KeyId(1)).unwrap(), **map.get(&KeyId(1)).unwrap()), ("old", "new"));
        let branch = |map: &Shards<KeyId, &'static str>, at: usize| {
            map.branches[at].as_ref().map(Arc::as_ptr).unwrap()
        };
        assert!(std::ptr::addr_eq(branch(&map, 1), branch(&copy, 1)));
        assert!(!std::ptr::addr_eq(branch(&map, 0), branch(&copy, 0)));
    }

    #[test]
    fn hashes_with_the_same_beginning_stay_apart() {
        let mut map = Shards::<KeyHash, u8>::default();
        let hash = |last: u8| {
            let mut bytes = [9; 32];
            bytes[31] = last;
            KeyHash(bytes)
        };
        map.insert(hash(1), Arc::new(1));
        map.insert(hash(2), Arc::new(2));
        assert_eq!(map.get(&hash(1)).map(|v| **v), Some(1));
        assert_eq!(map.get(&hash(2)).map(|v| **v), Some(2));
        assert!(map.get(&hash(3)).is_none());
    }
}
