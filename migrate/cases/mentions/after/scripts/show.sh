#!/bin/sh
cat "$GC_CITY/prompts/mayor.md"
