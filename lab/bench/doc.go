// Package bench measures this module beside other libraries for leader election, on
// the same machine and in the same run, and prints tables.
//
//	make bench
//
// It starts real servers and processes, and takes about two hours. The figures depend
// on the machine, so compare the ratios. It is a test binary because package testbed
// starts servers for tests; it asserts nothing.
package bench
