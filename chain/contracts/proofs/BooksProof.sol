// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Books} from "../src/stake/Books.sol";

/// @title What a solver proves of `Books` (`make prove`): three laws hold before the first movement, and after each if before it
/// @dev By induction they hold after any movements, in any order, of any size, by anybody. Three pots and two accounts stand for
///      all: any others behave as the last one does. `Ledger` keeps in a queue what `_mine` and `_yours` are here.
contract BooksProof is Books {
    uint256 private _received; // from outside, ever
    uint256 private _paid; // to outside, ever
    uint256 private _mine; // what the ledger owes to one account
    uint256 private _yours; // and to another

    constructor() {
        assert(_received == _totalPots + _totalCredits + _treasury + _totalBurned + _paid);
        assert(_totalPots == _pots["a"] + _pots["b"] + _pots["c"]);
        assert(_totalCredits == _mine + _yours);
    }

    /// @dev Every wei is in one place; the pots are their total; the accounts are theirs. So what a pot holds, and what an
    ///      account is owed, can be taken from the totals.
    modifier lawful(bytes32 ref) {
        require(ref == "a" || ref == "b" || ref == "c");
        require(_received == _totalPots + _totalCredits + _treasury + _totalBurned + _paid);
        require(_totalPots == _pots["a"] + _pots["b"] + _pots["c"]);
        require(_totalCredits == _mine + _yours);
        assert(_pots[ref] <= _totalPots && _mine <= _totalCredits && _yours <= _totalCredits);
        _;
        assert(_received == _totalPots + _totalCredits + _treasury + _totalBurned + _paid);
        assert(_totalPots == _pots["a"] + _pots["b"] + _pots["c"]);
        assert(_totalCredits == _mine + _yours);
    }

    function take(bytes32 ref, uint256 amount) external lawful(ref) {
        _received += amount;
        _take(ref, amount);
    }

    function fund(uint256 amount) external lawful("a") {
        _received += amount;
        _fund(amount);
    }

    function credit(bytes32 ref, uint256 amount, bool mine) external lawful(ref) {
        _credit(ref, amount);
        if (mine) _mine += amount;
        else _yours += amount;
    }

    function burn(bytes32 ref, uint256 amount) external lawful(ref) {
        _burn(ref, amount);
    }

    function advance(bytes32 ref, uint256 want) external lawful(ref) {
        _advance(ref, want);
    }

    function repay(bytes32 ref, uint256 amount) external lawful(ref) {
        _repay(ref, amount);
    }

    function pay(uint256 amount, bool mine) external lawful("a") {
        require(amount <= (mine ? _mine : _yours));
        if (mine) _mine -= amount;
        else _yours -= amount;
        _paid += amount;
        _pay(amount);
    }
}
