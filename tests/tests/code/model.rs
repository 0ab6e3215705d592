//! What the contexts of a sandbox are to be after any acknowledged operation: a few lines that say
//! what execution, checkpoint, rollback, copy and delete do. The test of kills compares with it.

use std::collections::BTreeMap;

/// What stands for a context's whole memory: the number that was set last.
pub type State = u64;

/// A context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub state: State,
    pub checkpoints: BTreeMap<String, State>,
}

/// Contexts by their ids.
pub type Model = BTreeMap<String, Known>;

/// One request.
#[derive(Debug, Clone)]
pub enum Op {
    Run { id: String, state: State },
    Checkpoint { id: String, name: String },
    Rollback { id: String, name: String },
    Drop { id: String, name: String },
    Fork { id: String },
    Delete { id: String },
}

impl Op {
    /// Changes what is known. `copy`: the id of the one that a fork made.
    pub fn apply(&self, model: &mut Model, copy: &str) {
        match self {
            Op::Run { id, state } => known(model, id).state = *state,
            Op::Checkpoint { id, name } => {
                let context = known(model, id);
                context.checkpoints.insert(name.clone(), context.state);
            }
            Op::Rollback { id, name } => {
                let context = known(model, id);
                context.state = context.checkpoints[name];
            }
            Op::Drop { id, name } => drop(known(model, id).checkpoints.remove(name)),
            Op::Fork { id } => {
                let state = known(model, id).state;
                let fresh = Known { state, checkpoints: BTreeMap::new() };
                assert!(model.insert(copy.to_owned(), fresh).is_none(), "{copy} was there");
            }
            Op::Delete { id } => drop(model.remove(id)),
        }
    }

    /// The next one, by chance: at most `most` contexts, and at least one.
    pub fn any(chance: &mut Chance, model: &Model, most: usize, state: State) -> Self {
        let at = chance.below(model.len() as u64) as usize;
        let (id, context) = model.iter().nth(at).expect("there is one");
        let id = id.clone();
        let there: Vec<_> = context.checkpoints.keys().cloned().collect();
        let name = ["a", "b", "c"][chance.below(3) as usize].to_owned();
        match chance.below(20) {
            0..=2 if !there.contains(&name) => Op::Checkpoint { id, name },
            3..=5 if there.contains(&name) => Op::Rollback { id, name },
            6 if there.contains(&name) => Op::Drop { id, name },
            7..=9 if model.len() < most => Op::Fork { id },
            10..=11 if model.len() > 1 => Op::Delete { id },
            _ => Op::Run { id, state },
        }
    }
}

fn known<'a>(model: &'a mut Model, id: &str) -> &'a mut Known {
    model.get_mut(id).unwrap_or_else(|| panic!("{id} is known"))
}

/// Numbers that look random, the same ones for the same seed.
pub struct Chance(pub u64);

impl Chance {
    /// One of `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (n ^ (n >> 31)) % end
    }
}
