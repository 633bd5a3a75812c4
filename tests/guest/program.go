// A static Go program: its runtime needs threads, signals and large reservations.
package main

import (
	"fmt"
	"os"
	"sort"
)

func main() {
	results := make(chan int)
	for i := 0; i < 10; i++ {
		go func(n int) { results <- n * n }(i)
	}
	all := []int{}
	for i := 0; i < 10; i++ {
		all = append(all, <-results)
	}
	sort.Ints(all)
	fmt.Println(all)
	os.WriteFile("written-by-go", []byte("go\n"), 0644)
	os.Exit(5)
}
