//! The package of constants is that of the contract.

use ferroce_rtl::package;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sv/ferroce_pkg.sv");

/// Goal: the modules use the contract's offsets. Method: the file is compared with what is printed
/// from the declarations; `FERROCE_UPDATE=1` writes it.
#[test]
fn the_package_is_that_of_the_contract() {
    let expected = package::print();
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        std::fs::write(PATH, &expected).expect("the sources can be written");
    }
    let found = std::fs::read_to_string(PATH).expect("the package is in the tree");
    assert!(
        found == expected,
        "{PATH} is old: FERROCE_UPDATE=1 writes it"
    );
}
