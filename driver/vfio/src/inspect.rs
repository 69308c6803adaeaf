//! Checks of a card in sysfs and at the device nodes, before the kernel is asked to open it: most
//! refusals are found here, where they can be explained.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{NodeOwner, VfioOpenError};
use crate::pci::{Bdf, FERROCE, Function, Roots, is_vfio};

/// A card whose visible state allows opening it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) bdf: Bdf,
    /// Its folder in sysfs.
    pub(super) path: PathBuf,
    /// Its IOMMU group.
    pub(super) group: u32,
    /// Its device node, if it can be opened without its group.
    pub(super) device_node: Option<PathBuf>,
}

/// Inspects the function `bdf`.
///
/// # Errors
///
/// Every [`VfioOpenError`] that can be found without an attempt to open the function.
pub(super) fn inspect(roots: &Roots, bdf: Bdf) -> Result<Candidate, VfioOpenError> {
    let function = find(roots, bdf)?;
    let driver = function.driver();
    let Some(group) = function.iommu_group() else {
        return Err(if function.may_get_group(roots) {
            VfioOpenError::NotBound { bdf, driver }
        } else {
            let has_iommu = roots.has_iommu();
            VfioOpenError::NoIommuGroup { bdf, has_iommu }
        });
    };
    if roots.is_noiommu_group(group) {
        return Err(VfioOpenError::UnsafeNoIommu { bdf });
    }
    if !driver.as_deref().is_some_and(is_vfio) {
        return Err(VfioOpenError::NotBound { bdf, driver });
    }
    let others = spoilers(roots, bdf, group);
    if !others.is_empty() {
        return Err(VfioOpenError::GroupNotViable { bdf, group, others });
    }
    Ok(Candidate {
        bdf,
        group,
        device_node: device_node(roots, &function),
        path: function.path,
    })
}

fn find(roots: &Roots, bdf: Bdf) -> Result<Function, VfioOpenError> {
    let cards = || roots.cards().iter().map(|card| card.bdf).collect();
    match roots.function(bdf) {
        Some(function) if function.id == FERROCE => Ok(function),
        Some(function) => Err(VfioOpenError::NotFerroce {
            bdf,
            found: function.id,
            cards: cards(),
        }),
        None => Err(VfioOpenError::NoSuchDevice {
            bdf,
            cards: cards(),
        }),
    }
}

/// Returns the other functions of the group that are bound to host drivers.
pub(super) fn spoilers(roots: &Roots, bdf: Bdf, group: u32) -> Vec<(Bdf, String)> {
    roots
        .group_members(group)
        .iter()
        .filter(|member| member.bdf != bdf && member.spoils_group())
        .filter_map(|member| Some((member.bdf, member.driver()?)))
        .collect()
}

/// Returns the device node of the function, if it and iommufd exist.
fn device_node(roots: &Roots, function: &Function) -> Option<PathBuf> {
    let has_iommufd = roots.dev.join("iommu").exists();
    roots.device_node(function).filter(|_| has_iommufd)
}

/// Explains why a device node could not be opened.
pub(super) fn explain_node(
    roots: &Roots,
    bdf: Bdf,
    path: &Path,
    module: &'static str,
    error: &io::Error,
) -> VfioOpenError {
    let path = path.to_owned();
    match error.raw_os_error() {
        Some(libc::ENOENT) => VfioOpenError::NoNode { path, module },
        Some(libc::EACCES | libc::EPERM) => match std::fs::metadata(&path) {
            Ok(metadata) => VfioOpenError::NoPermission {
                bdf,
                path,
                owner: NodeOwner {
                    user: metadata.uid(),
                    group: metadata.gid(),
                    mode: metadata.mode() & 0o7777,
                },
            },
            Err(_) => VfioOpenError::NoNode { path, module },
        },
        Some(libc::EBUSY) => VfioOpenError::Busy {
            bdf,
            holders: roots.holders(&path),
        },
        _ => VfioOpenError::kernel(bdf, "open its device node", error),
    }
}
