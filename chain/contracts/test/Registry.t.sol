// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {Registry} from "../src/stake/Registry.sol";
import {Status} from "../src/libraries/Types.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {Staking} from "./Staking.sol";

/// @title What may be run: proposed by anybody, reproduced by stake, let in by governance, closed by court or governance
contract RegistryTest is Staking {
    bytes32 private constant ITEM = "item";
    bytes32 private constant VECTORS = "vectors";
    bytes32 private constant OTHER = "other";
    uint256 private constant VERIFIERS = 6;

    /// @dev Verifiers of 5 to 10 units in the pool, one of 8 in another: all of them weigh.
    function setUp() public override {
        super.setUp();
        pooled(OTHER, registry, UNIT);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            joined(i, (5 + i) * 1 ether);
        }
        staked(person(VERIFIERS), 8 ether);
        joins(person(VERIFIERS), OTHER, platform(VERIFIERS));
        nextEpoch();
    }

    function proposed(bytes32 pool) private {
        registry.propose(ITEM, pool, VECTORS, "document");
    }

    function certifies(address who) private {
        vm.prank(who);
        registry.certify(ITEM, VECTORS);
    }

    function status() private view returns (Status) {
        return registry.item(ITEM).status;
    }

    function badStatus(Status have, Status want) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IRegistry.BadStatus.selector, ITEM, have, want);
    }

    function test_an_item_is_active_when_enough_stake_reproduced_it(uint8 who, bool model) public {
        proposed(model ? bytes32(0) : POOL);
        uint256 units;
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (who >> i & 1 == 0) continue;
            certifies(person(i));
            units += 5 + i;
        }
        same(registry.item(ITEM).certified, units, "units");
        same(registry.certifiedIn(ITEM, POOL), units, "in its pool");
        // Half of the 45 units, rounded up.
        bool enough = units >= 23;
        if (!enough) {
            vm.expectRevert(abi.encodeWithSelector(IRegistry.TooFewCertified.selector, ITEM, units, model ? 0 : 23));
        }
        registry.activate(ITEM);
        that(status() == (enough ? Status.ACTIVE : Status.PROPOSED), "status");
    }

    function test_a_model_needs_enough_of_one_pool(uint8 who, bool other) public {
        proposed(0);
        uint256 units;
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (who >> i & 1 == 0 || units + 5 + i >= 23) continue;
            certifies(person(i));
            units += 5 + i;
        }
        if (other) certifies(person(VERIFIERS));
        same(registry.item(ITEM).certified, units + (other ? 8 : 0), "in all pools");
        // Too few here, however many: all of the other pool or none.
        if (!other) vm.expectPartialRevert(IRegistry.TooFewCertified.selector);
        registry.activate(ITEM);
    }

    function test_an_environment_is_certified_by_its_pool(uint8 i) public {
        proposed(POOL);
        address stranger = i % 2 == 0 ? person(VERIFIERS) : person(100 + uint256(i));
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NotVerifier.selector, stranger));
        certifies(stranger);
    }

    function test_a_verifier_certifies_once_what_was_proposed(uint8 i, bytes32 vectors) public {
        vm.assume(vectors != VECTORS);
        address who = person(i % VERIFIERS);
        vm.prank(who);
        vm.expectRevert(badStatus(Status.NONE, Status.PROPOSED));
        registry.certify(ITEM, VECTORS);
        proposed(POOL);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.OtherVectors.selector, vectors, VECTORS));
        registry.certify(ITEM, vectors);
        certifies(who);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.AlreadyCertified.selector, ITEM, who));
        certifies(who);
        // Nor again in another pool.
        quits(who);
        joins(who, OTHER, platform(i % VERIFIERS));
        nextEpoch();
        vm.expectPartialRevert(IRegistry.NotVerifier.selector);
        certifies(who);
    }

    function test_nor_for_a_model_from_two_pools(uint8 i) public {
        address who = person(i % VERIFIERS);
        proposed(0);
        certifies(who);
        quits(who);
        joins(who, OTHER, platform(i % VERIFIERS));
        nextEpoch();
        vm.expectRevert(abi.encodeWithSelector(IRegistry.AlreadyCertified.selector, ITEM, who));
        certifies(who);
    }

    function test_only_stake_that_stays_certifies(uint8 i, uint96 leaving) public {
        proposed(POOL);
        address who = person(i % VERIFIERS);
        uint256 stake = vault.stakeOf(who);
        uint256 out = bound(leaving, 1, stake);
        unbonds(who, out);
        uint256 want = unitsOf(stake - out);
        if (want == 0) vm.expectRevert(abi.encodeWithSelector(IRegistry.NoUnit.selector, who, stake - out));
        certifies(who);
        same(registry.item(ITEM).certified, want, "what is left");
        address fresh = joined(50, 20 ether);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NoUnit.selector, fresh, 20 ether));
        certifies(fresh);
    }

    /// @dev Stake that certified can have left and come back by another account only when nobody can certify any more.
    function test_no_stake_certifies_twice(uint32 wait) public {
        proposed(POOL);
        passes(wait % DELAY);
        address who = person(0);
        certifies(who);
        unbonds(who, 5 ether);
        passes(DELAY + 1 hours);
        finishes(who);
        address again = person(60);
        vm.prank(who);
        (bool ok,) = again.call{value: 5 ether}("");
        that(ok, "moved");
        vm.prank(again);
        vault.deposit{value: 5 ether}();
        joins(again, POOL, platform(60));
        nextEpoch();
        uint64 until = registry.item(ITEM).certifyUntil;
        vm.expectRevert(abi.encodeWithSelector(IRegistry.CertifyOver.selector, ITEM, until));
        certifies(again);
    }

    function test_nobody_certifies_while_the_clock_stands_still(uint8 i, uint32 stopped) public {
        proposed(POOL);
        guardian.pause(uint64(bound(stopped, 1, 1 days)));
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        certifies(person(i % VERIFIERS));
        guardian.unpause();
        certifies(person(i % VERIFIERS));
    }

    /// @dev Whoever is first with a wrong proposal keeps the right one out for one act of governance, or one delay.
    function test_a_wrong_proposal_is_replaced(address stranger, bytes32 vectors, uint32 wait) public {
        vm.assume(stranger != address(this) && vectors != VECTORS);
        vm.prank(stranger);
        registry.propose(ITEM, POOL, vectors, "");
        vm.prank(person(5));
        registry.certify(ITEM, vectors);
        uint256 waited = bound(wait, 0, 2 * DELAY);
        passes(waited);
        if (waited <= DELAY) {
            vm.prank(stranger);
            vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, stranger));
            registry.propose(ITEM, POOL, VECTORS, "");
            proposed(POOL);
        } else {
            vm.prank(stranger);
            registry.propose(ITEM, POOL, VECTORS, "");
        }
        same(registry.item(ITEM).certified, 0, "begins again");
        same(registry.certifiedIn(ITEM, POOL), 0, "in every pool");
        certifies(person(5));
        same(registry.item(ITEM).certified, 10, "also who certified the other one");
    }

    function test_a_proposal_names_a_pool_that_exists(bytes32 pool) public {
        vm.assume(pool != POOL && pool != OTHER && pool != 0);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.UnknownPool.selector, pool));
        proposed(pool);
    }

    function test_nothing_certifies_an_item_of_an_empty_pool(bytes32 pool, bool model) public {
        vm.assume(pool != POOL && pool != OTHER && pool != 0);
        pooled(pool, registry, UNIT);
        proposed(model ? bytes32(0) : pool);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.TooFewCertified.selector, ITEM, 0, model ? 0 : 1));
        registry.activate(ITEM);
    }

    function activated() private {
        proposed(POOL);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            certifies(person(i));
        }
        registry.activate(ITEM);
    }

    function test_court_and_governance_close_governance_opens_again(bool byCourt, address stranger) public {
        vm.assume(stranger != address(this) && stranger != COURT);
        activated();
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, stranger));
        registry.close(ITEM);
        if (byCourt) vm.prank(COURT);
        registry.close(ITEM);
        that(status() == Status.CLOSED, "closed");
        vm.expectRevert(badStatus(Status.CLOSED, Status.ACTIVE));
        registry.close(ITEM);
        // The court's second trip of the breaker must not fail.
        vm.prank(COURT);
        registry.close(ITEM);
        // The pool has grown to more than twice the units that certified.
        joined(VERIFIERS + 1, 60 ether);
        nextEpoch();
        registry.activate(ITEM);
        that(status() == Status.ACTIVE, "open again");
    }

    function test_what_is_active_or_closed_is_not_proposed_again(bool closed) public {
        vm.expectRevert(badStatus(Status.NONE, Status.PROPOSED));
        registry.activate(ITEM);
        activated();
        vm.expectRevert(badStatus(Status.ACTIVE, Status.PROPOSED));
        registry.activate(ITEM);
        vm.expectRevert(badStatus(Status.ACTIVE, Status.PROPOSED));
        certifies(person(0));
        if (closed) registry.close(ITEM);
        vm.expectRevert(badStatus(closed ? Status.CLOSED : Status.ACTIVE, Status.NONE));
        proposed(POOL);
    }

    function test_the_court_closes_nothing_that_is_not_active(bool unknown) public {
        if (!unknown) proposed(POOL);
        vm.prank(COURT);
        registry.close(ITEM);
        that(status() == (unknown ? Status.NONE : Status.PROPOSED), "as before");
    }

    function test_an_old_policy_does_not_come_back(bytes32 first, bytes32 second, uint64 serial, uint64 next) public {
        uint64 s = uint64(bound(serial, 1, type(uint64).max - 1));
        registry.setPolicy(first, s, "");
        same(registry.policyDigest(), first, "first");
        if (next <= s) vm.expectRevert(abi.encodeWithSelector(IRegistry.SerialNotGrowing.selector, s, next));
        registry.setPolicy(second, next, "");
        same(registry.policyDigest(), next <= s ? first : second, "digest");
        same(registry.policySerial(), next <= s ? s : next, "serial");
    }

    function test_anybody_registers_as_operator(address who, string calldata endpoint) public {
        that(registry.operatorUntil(who) == 0, "not yet");
        vm.prank(who);
        registry.registerOperator(endpoint);
        that(registry.operatorUntil(who) != 0, "operator");
    }

    /// @dev A second trip gives no more time, and to register again does not help.
    function test_the_court_suspends_an_operator_and_governance_readmits_it(address who, address other, uint16 later)
        public
    {
        vm.assume(other != COURT && other != address(this));
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, other));
        registry.suspend(who);
        vm.prank(COURT);
        registry.suspend(who);
        same(registry.operatorUntil(who), 0, "it never registered");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NotSuspended.selector, who));
        registry.readmit(who);
        vm.prank(who);
        registry.registerOperator("");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NotSuspended.selector, who));
        registry.readmit(who);
        (uint256 delay,) = params.demandTimes(1);
        uint256 until = block.timestamp + delay;
        vm.prank(COURT);
        registry.suspend(who);
        vm.warp(block.timestamp + later);
        vm.prank(COURT);
        registry.suspend(who);
        vm.prank(who);
        registry.registerOperator("");
        same(registry.operatorUntil(who), until, "as long as what it signed before takes");
        that(registry.operatorUntil(who) != 0, "it still answers for what it posted");
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, other));
        registry.readmit(who);
        registry.readmit(who);
        same(registry.operatorUntil(who), type(uint64).max, "readmitted");
    }

    function test_a_court_is_named_once_and_then_by_governance(address court, address who) public {
        vm.assume(court != address(0) && who != address(this));
        vm.expectRevert(Wired.AlreadyWired.selector);
        registry.wire(court);
        vm.expectRevert(Wired.ZeroAddress.selector);
        registry.setCourt(address(0));
        registry.setCourt(court);
        same(registry.court(), court, "court");
        Registry fresh = new Registry(address(manager), guardian, params, vault);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotDeployer.selector, who));
        fresh.wire(court);
        vm.expectRevert(Wired.ZeroAddress.selector);
        fresh.wire(address(0));
    }
}
