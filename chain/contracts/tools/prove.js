#!/usr/bin/env node
// Proves the laws of proofs/BooksProof.sol with solc's SMTChecker and z3, and shows that it could fail: the same proofs
// over copies of Books.sol with one planted defect each must be refuted. `make prove` gives the z3 to use in Z3.
//
// The engine is the bounded one: each movement is one step from any state that obeys the laws, so no loop and no invariant
// is left to find. The unbounded engine did not end within a minute on a law. solc warns that it will be removed some day.
'use strict';
const { spawnSync } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const solc = require('solc');

const PROJECT = join(__dirname, '..');
const PROOF = 'proofs/BooksProof.sol';
const BOOKS = 'src/stake/Books.sol';
const SECONDS = 60; // for one question
const SAFE = '2961'; // "check is safe"
const FOUND = '4661'; // "assertion violation happens here"
const UNPROVED = ['2788', '5840', '7812', '8084', '1218']; // what the solver could not decide, or no solver at all

const DEFECTS = [
  ['a pot keeps what was taken from it', '_pots[ref] = have - amount;', '_pots[ref] = have;'],
  ['the total of the pots forgets what left', '        _totalPots -= amount;\n', ''],
  ['the treasury keeps what it advanced', '        _treasury -= amount;\n', ''],
  ['what is burned is not counted', '        _totalBurned += amount;\n', ''],
  ['what is credited is not counted', '        _totalCredits += amount;\n', ''],
  ['what is paid stays a credit', '        _totalCredits -= amount;\n', ''],
];

function ask(query) {
  const answer = spawnSync(process.env.Z3 || 'z3', ['-smt2', `-T:${SECONDS}`, '-in'], { input: query, encoding: 'utf8' });
  return answer.error ? { error: String(answer.error) } : { contents: answer.stdout };
}

// What the checker says, by code, with `books` in the place of Books.sol.
function checked(books) {
  const read = (path) => ({ contents: path === BOOKS ? books : readFileSync(join(PROJECT, path), 'utf8') });
  const modelChecker = {
    contracts: { [PROOF]: ['BooksProof'] },
    engine: 'bmc',
    targets: ['assert'],
    solvers: ['smtlib2'],
    showProvedSafe: true,
    showUnproved: true,
  };
  const input = {
    language: 'Solidity',
    sources: { [PROOF]: { content: read(PROOF).contents } },
    settings: { modelChecker, outputSelection: {} },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read, smtSolver: ask }));
  const broken = output.errors.filter((e) => e.severity === 'error');
  if (broken.length) throw new Error(broken.map((e) => e.formattedMessage).join('\n'));
  return output.errors;
}

function main() {
  const books = readFileSync(join(PROJECT, BOOKS), 'utf8');
  const laws = readFileSync(join(PROJECT, PROOF), 'utf8').split('assert(').length - 1;
  const said = checked(books);
  const safe = said.filter((e) => e.errorCode === SAFE).length;
  const open = said.filter((e) => e.errorCode === FOUND || UNPROVED.includes(e.errorCode));
  open.forEach((e) => console.log(e.formattedMessage));
  console.log(`Books: ${safe} of ${laws} assertions proved`);
  let ok = safe === laws && open.length === 0;
  for (const [what, line, instead] of DEFECTS) {
    if (books.split(line).length !== 2) throw new Error(`Books.sol has not one line "${line.trim()}" to plant a defect in`);
    const found = checked(books.replace(line, instead)).some((e) => e.errorCode === FOUND);
    console.log(`planted: ${what}: ${found ? 'refuted' : 'NOT FOUND'}`);
    ok = ok && found;
  }
  process.exitCode = ok ? 0 : 1;
}

main();
