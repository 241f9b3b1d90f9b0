#!/bin/sh
sort "$@"
