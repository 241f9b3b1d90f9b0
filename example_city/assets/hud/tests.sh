#!/bin/sh
# Prints the last line of test-results.txt in the working directory; nothing if there is none.
if [ -f test-results.txt ]; then
    sed -n '$p' test-results.txt
fi
