import java.util.*;
import java.util.concurrent.*;

/** Garbage for the collector's threads, a thread pool, locks, and a sum that must be right. */
public class Gc {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int part = 0; part < 8; part++) {
            final int seed = part;
            parts.add(pool.submit(() -> {
                Map<Integer, byte[]> kept = new HashMap<>();
                Random random = new Random(seed);
                long sum = 0;
                for (int n = 0; n < 4000; n++) {
                    byte[] block = new byte[1 + random.nextInt(4000)];
                    block[0] = (byte) n;
                    kept.put(random.nextInt(300), block);
                    sum += block.length;
                }
                for (byte[] block : kept.values()) {
                    sum += block[0];
                }
                return sum;
            }));
        }
        long sum = 0;
        for (Future<Long> part : parts) {
            sum += part.get();
        }
        pool.shutdown();
        System.out.println("sum " + sum);
        System.gc();
        int[] count = new int[1];
        Thread[] threads = new Thread[4];
        for (int n = 0; n < threads.length; n++) {
            threads[n] = new Thread(() -> {
                for (int round = 0; round < 2000; round++) {
                    synchronized (count) {
                        count[0]++;
                    }
                }
            });
            threads[n].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("count " + count[0]);
        try {
            ((Object) null).toString();
        } catch (NullPointerException expected) {
            System.out.println("null is caught");
        }
        try {
            System.out.println(deeper(0));
        } catch (StackOverflowError expected) {
            System.out.println("overflow is caught");
        }
        Process child = new ProcessBuilder("/bin/echo", "a child").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println("child ended with " + child.waitFor());
    }

    static int deeper(int n) {
        return deeper(n + 1) + 1;
    }
}
