"""Tests of sinks: tables of foreign databases that are kept in step with topics."""
