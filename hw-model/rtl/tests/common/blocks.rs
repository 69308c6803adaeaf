//! The blocks of the NICs in hw-model's tests, with the memory translation table in RTL.

use ferroce_model::Blocks;
use ferroce_rtl::mtt::Mtt;

/// The blocks of the tests' NICs.
#[derive(Debug)]
pub struct TestBlocks;

impl Blocks for TestBlocks {
    type Mtt = Mtt;
}
