// Package bench measures the framework beside what its users have today, on the
// same machine and in the same run, and prints a table.
//
//	make bench
//
// It starts real servers and real processes, and takes about two hours. The
// figures belong to the machine; the ratios are what to look at. It is a test
// binary because that is where servers are started; nothing in it is asserted.
package bench
