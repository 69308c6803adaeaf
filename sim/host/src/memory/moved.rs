//! Registered pages that are no longer at the address of their registration.
//!
//! A card pins pages: when the program unmaps them, or maps something else over them, the card
//! continues with the old ones. Here they are moved to another address before (`mapping_calls` of
//! `embed`), and their mappings follow. From then on such a mapping is described by *pieces*, each
//! with its own address; accesses to it take the slow path.
//!
//! Nothing in here allocates memory, except [`MemoryMap::unmap_moved`]: allocators call `munmap`
//! themselves.

use std::ops::Range;

use super::{MapError, MemoryMap, Region};

/// Pieces of mappings in use at a time. Memory that needs more is lost.
pub const MAX_PIECES: usize = 1024;

/// Pieces that a mapping or a piece becomes at most when a range is cut out of it.
const MOST_OF_A_CUT: usize = 3;

/// The address to which memory has moved.
#[derive(Debug, Clone, Copy)]
pub enum NewPlace {
    /// An address that only the module that moves memory uses.
    Ours(usize),
    /// Another address of the program.
    OfProgram(usize),
    /// None: it is lost.
    Nowhere,
}

/// A part of a mapping: IOVAs `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    start: u64,
    end: u64,
    /// Its address; 0: it is lost.
    address: usize,
    /// True if it is at an address that only this module uses.
    is_ours: bool,
}

impl Piece {
    fn addresses(&self) -> Range<usize> {
        match self.address {
            0 => 0..0,
            address => address..address + (self.end - self.start) as usize,
        }
    }

    fn is_inside(&self, range: &Range<usize>) -> bool {
        let addresses = self.addresses();
        addresses.start >= range.start && addresses.end <= range.end && !addresses.is_empty()
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Mappings that consist of pieces, and the pieces.
#[derive(Debug)]
pub(super) struct Moved {
    pieces: Vec<Piece>,
}

impl Default for Moved {
    fn default() -> Self {
        Self {
            pieces: Vec::with_capacity(MAX_PIECES),
        }
    }
}

impl Moved {
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }

    pub(super) fn forget(&mut self, iovas: &Range<u64>) {
        self.pieces
            .retain(|piece| piece.start < iovas.start || piece.end > iovas.end);
    }

    fn add(&mut self, piece: Piece) -> bool {
        let has_room = self.pieces.len() < MAX_PIECES;
        if has_room {
            self.pieces.push(piece);
        }
        has_room
    }

    /// Splits the piece that contains `address`.
    fn cut(&mut self, address: usize) {
        for index in 0..self.pieces.len() {
            let piece = self.pieces[index];
            let addresses = piece.addresses();
            if address <= addresses.start || address >= addresses.end {
                continue;
            }
            let middle = piece.start + (address - addresses.start) as u64;
            let behind = Piece {
                start: middle,
                address,
                ..piece
            };
            if self.add(behind) {
                self.pieces[index].end = middle;
            } else {
                self.pieces[index].address = 0;
            }
        }
    }
}

impl MemoryMap {
    /// Returns the part of a moved mapping that contains `iova`, as a mapping.
    pub(super) fn moved_part(&self, region: &Region, iova: u64) -> Option<Region> {
        let holds = |piece: &&Piece| piece.start <= iova && iova < piece.end;
        let piece = self.moved.pieces.iter().find(holds)?;
        (piece.address != 0).then_some(Region {
            start: piece.start,
            end: piece.end,
            address: piece.address,
            owner_address: piece.address,
            physical: region.physical + (piece.start - region.start),
            ..*region
        })
    }

    /// Returns true if any mapping has moved, at least in part.
    pub fn has_moved(&self) -> bool {
        !self.moved.pieces.is_empty()
    }

    /// Splits all mappings with memory in `range` at its start and its end. Returns true if there
    /// are any.
    pub fn cut_out(&mut self, range: &Range<usize>) -> bool {
        for region in self.regions.values_mut() {
            let is_there = overlap(&region.addresses(), range);
            if region.is_moved || !region.is_pinned() || !is_there {
                continue;
            }
            region.is_moved = true;
            // Without room for the piece it is lost: no piece contains it.
            self.moved.add(Piece {
                start: region.start,
                end: region.end,
                address: region.address,
                is_ours: false,
            });
            let iovas = region.start..region.end;
            for line in self.cache.iter_mut() {
                if line.start < iovas.end && line.end > iovas.start {
                    *line = Region::NONE;
                }
            }
        }
        self.moved.cut(range.start);
        self.moved.cut(range.end);
        self.moved.pieces.iter().any(|piece| piece.is_inside(range))
    }

    /// Returns the memory of mappings, or of their pieces, that overlaps a range; not what is at
    /// addresses that only this module uses.
    fn overlapping(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let unmoved = self.regions.values();
        let unmoved = unmoved.filter(|region| !region.is_moved && region.is_pinned());
        let pieces = self.moved.pieces.iter().filter(|piece| !piece.is_ours);
        let all = unmoved
            .map(Region::addresses)
            .chain(pieces.map(Piece::addresses));
        all.filter(|addresses| overlap(addresses, range))
    }

    /// Returns the addresses from the first to the last of all mappings with memory in `range`.
    pub fn whole(&self, range: &Range<usize>) -> Option<Range<usize>> {
        self.overlapping(range)
            .reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
    }

    /// Returns true if [`Self::cut_out`] loses nothing.
    pub fn has_room_to_cut(&self, range: &Range<usize>) -> bool {
        let room = MAX_PIECES - self.moved.pieces.len();
        self.overlapping(range).count() * MOST_OF_A_CUT <= room
    }

    /// Returns the lowest addresses in `range` at which there are pieces, after [`Self::cut_out`].
    pub fn first_pieces(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let inside = |piece: &&Piece| piece.is_inside(range);
        let pieces = self.moved.pieces.iter().filter(inside);
        pieces
            .map(Piece::addresses)
            .min_by_key(|addresses| addresses.start)
    }

    /// Returns how far the memory of pieces extends that contain `address` or begin there;
    /// `address` if none.
    pub fn pieces_end(&self, address: usize) -> usize {
        let holds =
            |addresses: &Range<usize>| addresses.start <= address && address < addresses.end;
        let all = self.moved.pieces.iter().map(Piece::addresses);
        all.filter(holds)
            .map(|addresses| addresses.end)
            .max()
            .unwrap_or(address)
    }

    /// Records that the memory at `from` has moved.
    pub fn retarget(&mut self, from: &Range<usize>, to: NewPlace) {
        for piece in &mut self.moved.pieces {
            if piece.is_inside(from) {
                piece.address = match to {
                    NewPlace::Ours(to) | NewPlace::OfProgram(to) => {
                        to + (piece.address - from.start)
                    }
                    NewPlace::Nowhere => 0,
                };
                piece.is_ours = matches!(to, NewPlace::Ours(_));
            }
        }
    }

    /// Lets the device reach mapped memory in `range` even where the program may not (`is_forced`).
    pub fn force(&mut self, range: &Range<usize>) {
        let is_there = |region: &Region, pieces: &[Piece]| {
            let of_region = |piece: &&Piece| region.start <= piece.start && piece.end <= region.end;
            if region.is_moved {
                pieces
                    .iter()
                    .filter(of_region)
                    .any(|piece| overlap(&piece.addresses(), range))
            } else {
                overlap(&region.addresses(), range)
            }
        };
        for region in self.regions.values_mut() {
            region.is_forced |= region.is_pinned() && is_there(region, &self.moved.pieces);
        }
        self.cache.fill(Region::NONE);
    }

    /// Does the same as [`Self::unmap`], also for mappings that have moved. Returns the addresses
    /// of moved pages that are left; other mappings may still use them.
    ///
    /// # Errors
    /// [`MapError::NotMapped`].
    pub fn unmap_moved(&mut self, iova: u64, length: u64) -> Result<Vec<Range<usize>>, MapError> {
        let end = iova.checked_add(length).ok_or(MapError::BadRange)?;
        let ours = |piece: &&Piece| piece.is_ours && piece.start >= iova && piece.end <= end;
        let left: Vec<_> = self.moved.pieces.iter().filter(ours).collect();
        let left = left.into_iter().map(Piece::addresses).collect();
        self.unmap(iova, length)?;
        Ok(left)
    }

    /// Returns the parts of `ranges` that no piece uses.
    pub fn unused(&self, ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut rest = ranges;
        for used in self.moved.pieces.iter().map(Piece::addresses) {
            let cut = |range: Range<usize>| {
                let before = range.start..range.end.min(used.start);
                let behind = range.start.max(used.end)..range.end;
                [before, behind].into_iter().filter(|part| !part.is_empty())
            };
            if !used.is_empty() {
                rest = rest.into_iter().flat_map(cut).collect();
            }
        }
        rest
    }
}
