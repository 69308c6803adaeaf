#!/usr/bin/env python3
"""Runs rdma-core's own tests of pyverbs, and prints one line for each: id, outcome, reason.

    run.py FOLDER [run_tests.py's options] [TEST...]

FOLDER holds `tests/` as Debian's python3-pyverbs ships it, unpacked. Names of tests start with
`tests.`; without any the whole suite runs. With --list-tests it only prints their names.
"""

import os
import sys
import unittest


class Lines(unittest.TestResult):
    """Prints outcomes as they come, so that a crash leaves those before it."""

    def report(self, test, outcome, reason=''):
        print('\t'.join([test.id(), outcome, ' '.join(reason.split())]), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report(test, 'ok')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report(test, 'skipped', reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, 'failed', self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, 'error', self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.report(test, 'failed', str(err[1]))


def repair_dma_bufs(module):
    """Lets a module register dma-bufs that it allocates.

    DmaBufMR of rdma-core 44 to 65 calls a method of its DmaBuf that only C has, and fails on every
    device. The buffers of this class have it in Python.
    """
    from pyverbs.dmabuf import DmaBuf
    from pyverbs.mr import DmaBufMR

    class Buffer(DmaBuf):
        def add_ref(self, region):
            pass

    class Region(DmaBufMR):
        def __init__(self, pd, length, access, dmabuf=None, offset=0, gpu=0, gtt=0):
            if dmabuf is None:
                dmabuf = Buffer(length + offset, gpu, gtt)
            super().__init__(pd, length, access, dmabuf, offset=offset)

    module.DmaBufMR = Region


def cases(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from cases(entry)
        else:
            yield entry


def main():
    folder = sys.argv.pop(1)
    sys.path[:0] = [folder, os.path.join(folder, 'tests')]
    from args_parser import parser
    parser.parse_args()
    only_list = parser.args['list_tests']
    parser.args['list_tests'] = False
    import tests
    repair_dma_bufs(sys.modules['tests.test_mr'])
    names = sys.argv[1:]
    loader = unittest.defaultTestLoader
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = unittest.TestSuite(loader.loadTestsFromModule(m) for m in tests.__test_modules__)
    if only_list:
        for case in cases(suite):
            print(case.id())
        return
    result = Lines()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == '__main__':
    main()
